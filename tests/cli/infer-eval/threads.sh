# Results do not depend on the number of threads.
for t in 1 2 5; do
  infer-eval -t $t -m "$GOLDEN/quants-256/model.gguf" -d "$GOLDEN/quants-256/golden.txt" --ctx 48 --save $t.h5 --json |
    sed 's/"seconds":[^,}]*//; s/"threads":[0-9]*//' > $t.json
done
cmp 1.json 2.json && cmp 1.json 5.json && infer-eval -t 3 -m "$GOLDEN/quants-256/model.gguf" \
  -d "$GOLDEN/quants-256/golden.txt" --ctx 48 --against 1.h5 | tail -1 | awk '{ print $1, $4, $5, $6 }'
