# Ids of a text and back, byte for byte.
printf 'Hello  world\t\xe2\x82\xac\xf0\x9f\x98\x80 \xff\xfe\r\n<|im_start|>x\0y' > text
for m in llama qwen2 gemma3/model.gguf; do
  for s in "" --special; do
    infer-run -m "$GOLDEN/$m" --tokenize text $s > ids && infer-run -m "$GOLDEN/$m" --detokenize ids | cmp - text
  done
done
infer-run -m "$GOLDEN/llama" --tokenize text | head -3
infer-run -m "$GOLDEN/llama" --tokenize - < text | cmp - <(infer-run -m "$GOLDEN/llama" --tokenize text)
: > empty; infer-run -m "$GOLDEN/llama" --tokenize empty
