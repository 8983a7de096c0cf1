# What --resume and --output refuse.
run() { infer-run -m "$GOLDEN/llama" -n 3 --no-timings "$@"; echo "exit $?"; }
printf 'hello\nworld\n' > in.txt
run --resume out in.txt
run --resume out in.txt                   # nothing is left to do
printf 'hello\nworld\nmore\n' > in.txt
run --resume out in.txt                   # the line that was added
wc -l < out
head -1 out > out.partial
run -o out in.txt
run --resume out in.txt
rm out.partial
sed -i 's/"id":2/"id":"x"/' out
run --resume out in.txt
echo rubbish > out
run --resume out in.txt
run --resume - in.txt
run --resume /dev/null in.txt
run --resume a -o b in.txt 2>&1 | head -1
run -o no/such/folder in.txt
ls
