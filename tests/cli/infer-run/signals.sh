# SIGINT and SIGTERM: what is finished stays, the rest can be gone on with.
for i in $(seq 400); do echo "hello $i"; done > in.txt
run() { exec infer-run -m "$GOLDEN/gemma3" -t 1 --no-timings --ignore-eos -n 60 -q "$@" in.txt; }
(run) > want
for sig in INT TERM; do
  rm -f out out.partial
  run -o out & pid=$!
  until [ -s out.partial ] || ! kill -0 $pid; do sleep 0.02; done
  kill -$sig $pid; wait $pid; echo "exit $?"
  [ -e out ] && echo "out is there"
  tail -c 1 out.partial | od -An -c | tr -d ' '
  (run --resume out) && cmp want out
done
ls
