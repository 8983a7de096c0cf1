# Crossed lists give one object per test with the fields of the contract; limits and ratios are positive.
infer-bench -m "$GOLDEN/quants-32/model.gguf" -p 8 -n 0,4 -b 1,3 -t 1,2 --kv-type bf16,f32 --repeats 2 --warmup 0 --json > rows || exit 1
wc -l < rows
for f in tool version host isa threads model test prompt_tokens generated_tokens batch tokens_per_second tokens_per_second_min \
  tokens_per_second_max repeats weight_bytes_per_step gb_per_second limit_gb_per_second gop_per_second limit_gop_per_second \
  limit_ratio; do
  [ "$(grep -c "\"$f\":" rows)" = 16 ] || echo "$f is missing"
done
grep -c '"test":"prefill"' rows
grep -c '"test":"decode"' rows
grep -c '"threads":2' rows
grep -cE '"(tokens_per_second|limit_[a-z_]*)":(0|-)[,.]?0*[,}]' rows
infer-bench -q -m "$GOLDEN/quants-32/model.gguf" -p 0,8 -n 2 --repeats 1 --exact --chunk 3 |
  awk '{ print $1, $2, $3, $4, NF }'
