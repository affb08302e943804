# serve.rb PORT FILE: answers each request with the file, by a thread for each connection.
require 'socket'

server = TCPServer.new('0.0.0.0', ARGV[0].to_i)
body = File.binread(ARGV[1])
loop do
  Thread.new(server.accept) do |client|
    nil while (line = client.gets) && line != "\r\n"
    client.write("HTTP/1.0 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n", body)
    client.close
  end
end
