# Wrong usage is 64, a text that is too short is 1.
infer-eval -d "$GOLDEN/llama/golden.txt"; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf"; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d x --skip 64 --ctx 64; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d x --windows 0; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d x y; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d nowhere.txt; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d - --ctx 32 < /dev/null; echo $?
infer-eval -m "$GOLDEN/llama/model.gguf" -d - --ctx 32 <<< 'a few words'; echo $?
