# kill -9 at random moments, again and again: in the end the same file as that of an undisturbed run.
for i in $(seq 1 300); do
  echo "{\"id\":\"r$i\",\"prompt\":\"the cat sat on $i mats\",\"max_tokens\":$((20 + i * 13 % 60)),\"n\":$((1 + i % 2))}"
done > in.jsonl
echo '{"id":"bad","prompt":5}' >> in.jsonl
run() { exec infer-run -m "$GOLDEN/gemma3" -t 1 --temperature 0.8 --no-timings -q in.jsonl "$@" 2>> err.log; }
size() { cat out out.partial 2> /dev/null | wc -c; }
(run) > want
kills=0 rc=137
while [ $rc = 137 ]; do
  before=$(size)
  if [ $kills = 0 ]; then run -o out & else run --resume out & fi
  pid=$!
  if [ $kills -lt 8 ]; then # once there is something new, after up to 50 ms
    while [ "$(size)" -le "$before" ] && kill -0 $pid 2> /dev/null; do sleep 0.01; done
    sleep "0.0$((RANDOM % 50 + 10))"
    kill -9 $pid 2> /dev/null
  fi
  wait $pid 2> /dev/null; rc=$?
  [ $rc = 137 ] || break
  kills=$((kills + 1))
  # Cut off in the middle of a record now and then, as a full disk would.
  f=out; [ -e out.partial ] && f=out.partial
  [ $((kills % 3)) = 0 ] && truncate -s -$((1 + RANDOM % 20)) $f
done
[ $rc = 1 ] || echo "exit status $rc, 1 is that of a run with a bad line"
[ $kills -gt 0 ] || echo "the run ended before it could be killed"
cmp want out || cat err.log
rm err.log
ls
