# kill -9 at random moments, again and again: in the end the same file as that of an undisturbed run.
for i in $(seq 1 300); do
  echo "{\"id\":\"r$i\",\"prompt\":\"the cat sat on $i mats\",\"max_tokens\":$((20 + i * 13 % 60)),\"n\":$((1 + i % 2))}"
done > in.jsonl
echo '{"id":"bad","prompt":5}' >> in.jsonl
run() { exec infer-run -m "$GOLDEN/gemma3" -t 1 --temperature 0.8 --no-timings -q in.jsonl "$@" 2> /dev/null; }
(run) > want
kills=0 rounds=0 at=50
while [ $rounds -lt 200 ]; do
  rounds=$((rounds + 1))
  if [ $rounds = 1 ]; then run -o out & else run --resume out & fi
  pid=$!
  sleep "0.$(printf %03d $((at + RANDOM % 150)))"
  kill -9 $pid 2> /dev/null
  wait $pid 2> /dev/null; rc=$?
  if [ $rc = 137 ]; then kills=$((kills + 1)); at=$((at < 700 ? at + 25 : at)); else break; fi
  # Cut off in the middle of a record now and then, as a full disk would.
  f=out; [ -e out.partial ] && f=out.partial
  [ $((rounds % 3)) = 0 ] && [ -s $f ] && truncate -s -$((1 + RANDOM % 20)) $f
done
[ "$rc" = 1 ] || echo "exit status $rc, 1 is that of a run with a bad line"
[ $kills -gt 0 ] || echo "the run ended before it could be killed"
echo "$kills kills" >&2
cmp want out && ls
