# A model against its own logits, against itself with 8-bit activations, and against files that do not fit it.
m=$GOLDEN/quants-32/model.gguf t=$GOLDEN/quants-32/golden.txt
infer-eval -q -m "$m" -d "$t" --ctx 32 --exact --save ref.h5 --top-k 7 > plain.txt || exit 1
infer-eval -q -m "$m" -d "$t" --ctx 32 --exact --against ref.h5 > same.txt || exit 1
cut -c 1-94 plain.txt > a.txt # without the time
head -2 same.txt | cut -c 1-94 | cmp a.txt - || exit 1
tail -1 same.txt | awk '{ print $1, $2, $3, $4, $5, $6 }'
infer-eval -q -m "$m" -d "$t" --ctx 32 --against ref.h5 | tail -1 |
  awk '{ print ($1 + 0 > 0 && $1 < 1 && $5 > 0.5 && $5 <= 1 && $6 > 0.5 && $6 < 2 ? "near" : "far: " $0) }'
infer-eval -q -m "$m" -d "$t" --ctx 32 --windows 2 --exact --against ref.h5 | tail -1 | awk '{ print $1, $6 }'
infer-eval -m "$m" -d "$t" --ctx 16 --against ref.h5 && exit 1
infer-eval -m "$m" -d "$t" --ctx 32 --skip 2 --against ref.h5 && exit 1
(cat "$t"; echo more) > other.txt
infer-eval -m "$m" -d other.txt --ctx 32 --against ref.h5 2> err.txt && exit 1
sed 's/SHA-256 [0-9a-f]*/SHA-256 X/; s/has [0-9a-f]*/has X/' err.txt >&2
infer-eval -m "$GOLDEN/llama/model.gguf" -d "$t" --ctx 32 --against ref.h5 2> err.txt && exit 1
grep -c 'another vocabulary' err.txt
infer-eval -q -m "$m" -d "$t" --ctx 32 --windows 1 --save one.h5 > /dev/null || exit 1
infer-eval -m "$m" -d "$t" --ctx 32 --against one.h5 && exit 1
head -c 3000 ref.h5 > cut.h5
infer-eval -m "$m" -d "$t" --ctx 32 --against cut.h5 2> err.txt && exit 1
grep -c 'cut.h5: not an HDF5 file, or a damaged one' err.txt
infer-eval -m "$m" -d "$t" --ctx 32 --against "$t" 2> err.txt && exit 1
grep -c 'golden.txt: not an HDF5 file' err.txt
infer-eval -m "$m" -d "$t" --ctx 32 --save nowhere/ref.h5 2> err.txt && exit 1
grep -c 'cannot create .*: No such file or directory' err.txt
ls
