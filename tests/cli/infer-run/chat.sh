# A conversation without a terminal: answers only, on standard output.
printf 'hello\n\n/reset\nhello\n' | infer-run -m "$GOLDEN/llama" --chat --chat-template chatml -n 6 > out; echo "exit $?"
[ "$(sed -n 1p out)" = "$(sed -n 2p out)" ] || cat out
printf 'a b c d e f g h i j k l m n o p q r s t u v w x y z\n' |
  infer-run -m "$GOLDEN/llama" --chat --chat-template chatml --ctx 24 2>&1 | sed -E 's/of [0-9]+ tokens/of N tokens/'
