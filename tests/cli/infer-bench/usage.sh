# Wrong usage is 64.
infer-bench; echo $?
infer-bench -m x -b 0; echo $?
infer-bench -m x -p 1,,2; echo $?
infer-bench -m x --kv-type f16; echo $?
infer-bench -m x --tests prefil; echo $?
infer-bench -m x y; echo $?
infer-bench -m nowhere.gguf 2> /dev/null; echo $?
