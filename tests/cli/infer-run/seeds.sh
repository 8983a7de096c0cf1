# Equal prompts on different lines draw differently, unless they name a seed; the run's seed changes the first kind only.
run() { infer-run -m "$GOLDEN/llama" --no-timings --token-ids -n 20 --temperature 1 --ignore-eos "$@" |
  grep -o '"token_ids":[^]]*'; }
(for i in 1 2 3; do echo '{"prompt":"the cat"}'; done; for i in 1 2; do echo '{"prompt":"the cat","seed":5}'; done) > in.jsonl
run in.jsonl > a; run --seed 1 in.jsonl > b
sort -u a | wc -l
sort -u b | wc -l
tail -2 a | cmp - <(tail -2 b)
cat a b | sort -u | wc -l
