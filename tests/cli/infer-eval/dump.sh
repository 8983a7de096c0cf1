# Every logit of two windows, whatever --skip is: 2 x 16 rows of the vocabulary, and nothing left behind.
infer-eval -q -m "$GOLDEN/llama/model.gguf" -d "$GOLDEN/llama/golden.txt" --ctx 16 --windows 2 --skip 9 --dump-logits all.h5 |
  awk '/^#/ { next } { print $4 }'
[ "$(stat -c %s all.h5)" -gt $((2 * 16 * 319 * 4)) ] && ls
