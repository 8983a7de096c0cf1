# Perplexity of golden models within 1e-6 of PyTorch's (scripts/oracle-ppl.py, FP32): from a file and from standard input,
# all scored tokens and the second half only, with and without BOS.
check() { # MODEL SKIP NLL SCORED
  infer-eval -m "$GOLDEN/$1/model.gguf" -d - --ctx 32 --skip "$2" --exact --kv-type f32 --json < "$GOLDEN/$1/golden.txt" |
    sed 's/[{},]/\n/g' | awk -F: -v want="$3" -v scored="$4" -v name="$1 skip $2" '
      $1 == "\"nll_mean\"" { nll = $2 }
      $1 == "\"perplexity\"" { ppl = $2 }
      $1 == "\"tokens_scored\"" { n = $2 }
      $1 == "\"windows\"" { w = $2 }
      END {
        d = (nll - want) / want; if (d < 0) d = -d
        p = (log(ppl) - nll) / nll; if (p < 0) p = -p
        print name ": " (d < 1e-6 && p < 1e-6 ? "equal" : "nll " nll " perplexity " ppl) ", " n " tokens, " w " windows"
        exit n != scored
      }' || exit 1
}
check llama 1 9.77378767 248
check llama 17 9.63711042 120
check gemma3 1 12.93996327 248
check gemma3 17 13.14571641 120
infer-eval -m "$GOLDEN/llama/model.gguf" -d "$GOLDEN/llama/golden.txt" --ctx 32 --windows 3 --exact | awk '/^#/ { next } { print $4, $5, $6, $7 }'
