# Outputs that cannot be written to.
printf 'hello\nworld\n' > in.txt
m="$GOLDEN/llama"
infer-run -m "$m" in.txt > /dev/full; echo "exit $?"
infer-run -m "$m" in.txt -o /dev/full; echo "exit $?"
infer-run -m "$m" -p hello -n 4 > /dev/full; echo "exit $?"
infer-run -m "$m" -p hello -n 4 -o /dev/full; echo "exit $?"
infer-run -m "$m" --describe > /dev/full; echo "exit $?"
infer-run -m "$m" --tokenize in.txt > /dev/full; echo "exit $?"
infer-run --list-archs > /dev/full; echo "exit $?"
infer-run -m "$m" in.txt >&-; echo "exit $?"
infer-run -m "$m" -p hello -n 4 >&-; echo "exit $?"
infer-run -m "$m" -n 2 in.txt <&- | wc -l
infer-run -m "$m" - <&- 2>&1; echo "exit $?"
for i in $(seq 2000); do echo hello; done > many.txt
late() { sleep 0.3; exec infer-run "$@"; } # when the reader has gone
late -m "$m" many.txt | true; echo "exit ${PIPESTATUS[0]}"
late -m "$m" -p hello -n 250 --ignore-eos | true; echo "exit ${PIPESTATUS[0]}"
[ -c /dev/full ] && ls
infer-run --help > /dev/full; echo "exit $?"
late -m "$m" --describe | true; echo "exit ${PIPESTATUS[0]}"
