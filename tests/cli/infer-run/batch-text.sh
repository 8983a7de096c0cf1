# Text prompts: LF and CRLF, blank lines, bytes that are not UTF-8, no newline at the end.
printf 'hello world\r\n\n   \nthe \377\n\xef\xbb\xbfA' | infer-run -m "$GOLDEN/llama" -n 5 --no-timings --token-ids
# Objects from a pipe are recognised; with --format they are text.
printf '\n{"prompt":"hello","max_tokens":2}\n' | infer-run -m "$GOLDEN/llama" -n 5 --no-timings
printf '{"prompt":"hello","max_tokens":2}\n' | infer-run -m "$GOLDEN/llama" -n 5 --no-timings --format text
