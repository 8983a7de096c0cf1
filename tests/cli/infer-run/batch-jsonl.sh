# Good and bad lines together: every one gets its record, in order.
cat > in.jsonl <<'END'
{"id":"a","prompt":"hello world","max_tokens":8}
{"id":"b","prompt":"the cat","max_tokens":12,"temperature":0.8,"seed":7,"n":3,"ignore_eos":true}
{"id":"c","prompt":[1,2,3],"max_tokens":40,"ignore_eos":true,"stop":["q","zzz"]}

{"id":"c","prompt":"a second c"}
{"id":"d","prompt":"x","max_tokens":null,"stop_token_ids":[304]}
{bad json
{"prompt":"x","temperature":"hot"}
{"prompt":"x","temperature":NaN}
{"prompt":"x","temperature":-1}
{"prompt":"x","temperature":1e999}
{"prompt":"x","top_k":1.5}
{"prompt":"x","top_p":1.5}
{"prompt":"x","min_p":true}
{"prompt":"x","n":5000}
{"prompt":"x","n":0}
{"prompt":"x","max_tokens":0}
{"prompt":"x","max_tokens":99999999999999999999}
{"prompt":"x","seed":-1}
{"prompt":"x","logprobs":101}
{"prompt":"x","stop":""}
{"prompt":"x","stop":[1]}
{"prompt":"x","stop_token_ids":5}
{"prompt":"x","stop_token_ids":[319]}
{"prompt":"x","logit_bias":{"x":1}}
{"prompt":"x","logit_bias":{"1":"y"}}
{"prompt":"x","ignore_eos":1}
{"prompt":"x","repetition_penalty":0}
{"id":"named","prompt":"x","colour":1}
{"id":1.5,"prompt":"x"}
{"id":["x"],"prompt":"x"}
{"prompt":""}
{"prompt":[]}
{"prompt":[1,319]}
{"prompt":[-1]}
{"prompt":["x"]}
{"prompt":7}
{}
{"prompt":"x","messages":[]}
{"prompt":"x","prompt":"y"}
{"messages":[]}
{"messages":[{"role":"user"}]}
[]
"text"
{"prompt":"x"} {"prompt":"y"}
END
printf '{"prompt":"bad \377 utf-8"}\n{"id":"last","prompt":"hello","max_tokens":3}' >> in.jsonl
infer-run -m "$GOLDEN/llama/model.gguf" --chat-template chatml --no-timings --token-ids in.jsonl
