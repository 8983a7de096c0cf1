# Wrong usage: exit status 64 and a message that names the option.
run() { infer-run "$@" 2> err; echo "$? $(head -1 err)"; }
run
run -p hello
run -m x --nonsense
run -m x --temperature
run -m x --temperature hot
run -m x --temperature nan
run -m x --temperature -1
run -m x --top-p 1.5
run -m x --n 0
run -m x -n 0
run -m x -t 0
run -m x -b 0
run -m x --kv-memory -5
run -m x --kv-memory 5X
run -m x --kv-type f64
run -m x --isa mmx
run -m x --format xml
run -m x --logit-bias 5
run -m x --logit-bias 5=x
run -m x --stop ''
run -m x --stop-token-ids 1,,2
run -m x --logprobs 1000
run -m x --seed -1
run -m x --chat --describe
run -m x --chat in.txt
run -m x --chat --n 2
run -m x -p a --resume out
run -m x a b
run -m x --config none.yaml
