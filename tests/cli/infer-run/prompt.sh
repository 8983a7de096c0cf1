# One prompt, streamed; the text is the same from a GGUF file and from a folder.
infer-run -m "$GOLDEN/llama/model.gguf" -p "hello world" -n 8
infer-run -m "$GOLDEN/llama" -p "hello world" -n 8 -o out && cat out
infer-run -m "$GOLDEN/llama" -p "hello world" -n 4 --json --no-timings | grep -o '"tool":"infer-run"'
infer-run -m "$GOLDEN/llama" -p "hello world" -n 4 --token-ids --no-timings --logprobs 0 |
  sed -E 's/(-?[0-9]\.[0-9])[0-9]+/\1/g'
infer-run -m "$GOLDEN/llama" -p "hello" -n 6 --n 2 --temperature 1 --ignore-eos | wc -l
