# --require: 0 when it holds, 2 when it is missed or matches no test, 64 when it is not understood.
bench() { infer-bench -q -m "$GOLDEN/llama/model.gguf" -p 8 -n 2 --repeats 1 --warmup 0 "$@" > /dev/null; echo $?; }
bench --require 'decode>=0.001' --require 'prefill@p8,b1:limit_ratio>0'
bench --require 'decode@b1>=1e15' 2> err.txt
sed 's/ is .*//' err.txt >&2
bench --require 'decode@b7>=1'
bench --require 'decoding>=1' 2> err.txt
head -1 err.txt >&2
