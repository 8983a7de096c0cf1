# What a model file holds.
cd "$GOLDEN" || exit 1
infer-run -m llama/model.gguf --describe --chat-template chatml
infer-run -m mistral --describe | sed -n '1,/^# type/p' | grep -v chat_template
infer-run -m quants-256/model.gguf --describe --json | grep -o '"types":.*\],"tensors":\[{[^}]*}'
