# Files that are not there or not what they should be: a message, no output file, exit status 1.
run() { infer-run "$@"; echo "exit $?"; }
echo hello > in.txt; mkdir folder; printf 'GGUF' > short.gguf
run -m none.gguf in.txt -o out
run -m folder in.txt -o out
run -m short.gguf in.txt -o out
run -m "$GOLDEN/llama" none.txt -o out
run -m "$GOLDEN/llama" folder -o out
run -m "$GOLDEN/llama" --tokenize none.txt -o out
echo '1 2 x' > ids; run -m "$GOLDEN/llama" --detokenize ids -o out
printf '1\n2\n\n999\n' > ids; run -m "$GOLDEN/llama" --detokenize ids -o out
run -m "$GOLDEN/llama" --ctx 100 --kv-memory 1K in.txt -o out
run -m "$GOLDEN/llama" --stop-token-ids 5,999 in.txt -o out
run -m "$GOLDEN/llama" --pre-tokenizer nothing in.txt -o out 2>&1 | sed "s|$GOLDEN|GOLDEN|" | head -c 60; echo
run -m "$GOLDEN/llama" --chat-template nothing in.txt -o out 2>&1 | head -c 60; echo
ls
