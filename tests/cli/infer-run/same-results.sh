# The same records whatever the batch, the chunk, the threads and the memory: bit for bit, log-probabilities included.
for i in $(seq 1 40); do
  echo "{\"prompt\":\"the cat sat on $((i % 7)) mats and $i hats\",\"max_tokens\":$((5 + i * 7 % 50)),\"n\":$((1 + i % 3))}"
done > in.jsonl
run() { infer-run -m "$GOLDEN/$model" --no-timings --token-ids --logprobs 2 --temperature 0.9 --ignore-eos "$@" in.jsonl; }
for model in llama/model.gguf quants-32/model.gguf; do
  run -b 1 -t 1 > want
  [ "$(wc -l < want)" = 79 ]
  for o in "-b 16 -t 1" "-b 5 -t 2 --chunk 7" "-b 64 -t 1 --ctx 128 --kv-memory 40K" "-b 16 -t 1 --chunk 1"; do
    run $o > got && cmp want got || echo "$model $o: different"
  done
  run -b 7 -t 1 --unordered | sort > got; sort want | cmp - got || echo "$model unordered: different"
  run --seed 1 | cmp -s want - && echo "$model: another seed gives the same text"
done
exit 0
