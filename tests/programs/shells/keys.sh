# What somebody types who interrupts a program, stops it, and goes on with it. The far host's server
# at port 8002 says `greeting`, and at the end of what it gets `farewell`.
nc -N $FAR 8002 # key
#key C greeting
echo "interrupted $?"
nc -N $FAR 8002 # key
#key Z greeting
echo "stopped $?"; jobs
curl -sf http://$FAR:8001/file | sha256sum
fg # key
#key D nc -N
echo "ended $?"
exit 9
