# Options from a YAML file; the command line wins.
cat > c.yaml <<'END'
# options
model: MODEL
max_tokens: 5
top-k: 4
temperature: 0.7
stop: [zzzz, "yyyy"]
ignore-eos: true
token-ids: false
END
sed -i "s|MODEL|$GOLDEN/llama|" c.yaml
infer-run --config c.yaml -p "hello" > a
infer-run -m "$GOLDEN/llama" -n 5 --top-k 4 --temperature 0.7 --stop zzzz --stop yyyy --ignore-eos -p "hello" > b
cmp a b
infer-run --config=c.yaml -n 3 --temperature 0 -p "hello" > a
infer-run -m "$GOLDEN/llama" -n 3 --ignore-eos -p "hello" > b
cmp a b
bad() { printf '%s\n' "$@" > bad.yaml; infer-run --config bad.yaml -p x 2>&1 | head -1; echo "exit ${PIPESTATUS[0]}"; }
bad 'model: x' 'colour: red'
bad 'model: x' 'temperature: hot'
bad 'model: x' 'ignore-eos: maybe'
bad 'config: other.yaml'
