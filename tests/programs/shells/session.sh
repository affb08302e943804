# What somebody types into a shell on the instance. $FAR is the far host's address, $TESTS the
# folder of the tests' programs. `file` is the file that all servers have.
at() { echo "$1 $(sha256sum | cut -d ' ' -f 1)"; }
python3 -u -m http.server 8100 >server.log 2>&1 & server=$!
until curl -sf -o got http://127.0.0.1:8100/file; do sleep 0.05; done
curl -sf http://127.0.0.1:8100/file | at local
wget -qO- http://$FAR:8001/file | tee copy | at far
echo "substituted $(curl -sf http://$FAR:8001/file | sha256sum | cut -d ' ' -f 1)"
clients=; for n in 1 2 3 4; do curl -sf -o got$n http://$FAR:8001/file & clients="$clients $!"; done
wait $clients && for n in 1 2 3 4; do at background$n <got$n; done
cmp <(curl -sf http://127.0.0.1:8100/file) <(curl -sf http://$FAR:8001/file) && echo same
# The shell's own sockets, which its children inherit.
exec 3<>/dev/tcp/$FAR/8001
printf 'GET /file HTTP/1.0\r\n\r\n' >&3
cat <&3 | sed '1,/^\r$/d' | at inherited
exec 3>&-
(exec 4<>/dev/tcp/127.0.0.1/8100; printf 'GET /file HTTP/1.0\r\n\r\n' >&4; cat <&4) | sed '1,/^\r$/d' | at subshell
exec 5<>/dev/tcp/$FAR/8001; printf 'GET /who HTTP/1.0\r\n\r\n' >&5
while IFS= read -r line <&5; do last=$line; done; echo "read $last"; exec 5>&-
nc -l 7100 >took & listener=$!
until nc -N 127.0.0.1 7100 <file 2>nc.log; do sleep 0.05; done; wait $listener; at nc <took
curl -s http://127.0.0.1:9/; echo "refused $?"
curl -sf http://$FAR:8001/none | cat; echo "${PIPESTATUS[@]}"
kill $server; wait $server; echo "killed $?"
