# The context: a prompt that leaves no room is an error of its line; else prompt and text together fill it.
word=$(printf 'cat %.0s' $(seq 40))
printf '{"id":"long","prompt":"%s"}\n{"id":"fits","prompt":"cat","max_tokens":1000,"ignore_eos":true}\n' "$word" > in.jsonl
infer-run -m "$GOLDEN/llama" --ctx 32 in.jsonl --no-timings | sed -E 's/"text":"([^"\\]|\\.)*"/"text":""/'
echo "exit ${PIPESTATUS[0]}"
