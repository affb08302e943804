import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;

/**
 * Servers that answer with the SHA-256 of what they get and with it, and clients of them.
 *
 * <pre>
 *   Digest plain PORT               ServerSocket, a thread for each connection
 *   Digest nio PORT                 ServerSocketChannel and a Selector
 *   Digest ask ADDRESS PORT TIMES   sends the file `file`: by Socket, and by SocketChannel
 *   Digest closes                   one thread waits for a socket, another closes it
 * </pre>
 */
class Digest {
    static byte[] answer(byte[] data) throws IOException {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
            byte[] all = Arrays.copyOf(digest, digest.length + data.length);
            System.arraycopy(data, 0, all, digest.length, data.length);
            return all;
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IOException(error);
        }
    }

    static void plain(int port) throws Exception {
        try (var listener = new ServerSocket(port)) {
            System.out.println("ready " + listener.getLocalSocketAddress());
            while (true) {
                Socket socket = listener.accept();
                new Thread(() -> {
                    try (socket) {
                        socket.getOutputStream().write(answer(socket.getInputStream().readAllBytes()));
                    } catch (IOException error) {
                        error.printStackTrace();
                    }
                }).start();
            }
        }
    }

    /** What a connection has got; after the end of that, what it is to send. */
    static class Exchange {
        final ByteArrayOutputStream got = new ByteArrayOutputStream();
        ByteBuffer rest;

        void proceed(SelectionKey key, ByteBuffer buffer) throws IOException {
            var channel = (SocketChannel) key.channel();
            if (rest == null) {
                buffer.clear();
                int read = channel.read(buffer);
                if (read >= 0) {
                    got.write(buffer.array(), 0, read);
                    return;
                }
                rest = ByteBuffer.wrap(answer(got.toByteArray()));
                key.interestOps(SelectionKey.OP_WRITE);
            }
            channel.write(rest);
            if (!rest.hasRemaining()) {
                channel.close();
            }
        }
    }

    static void nio(int port) throws Exception {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress(port)).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        System.out.println("ready " + listener.getLocalAddress());
        var buffer = ByteBuffer.allocate(65536);
        while (true) {
            selector.select();
            for (var key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    if (channel != null) {
                        channel.configureBlocking(false);
                        channel.register(selector, SelectionKey.OP_READ, new Exchange());
                    }
                } else {
                    ((Exchange) key.attachment()).proceed(key, buffer);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    static void check(byte[] got, byte[] right, String how) {
        if (!Arrays.equals(got, right)) {
            throw new IllegalStateException(how + ": " + got.length + " other bytes");
        }
    }

    static void ask(String address, int port, int times) throws Exception {
        byte[] file = Files.readAllBytes(Path.of("file"));
        byte[] right = answer(file);
        for (int round = 0; round < times; round++) {
            try (var socket = new Socket()) {
                socket.setTcpNoDelay(true);
                socket.setSoTimeout(60000);
                socket.connect(new InetSocketAddress(address, port), 60000);
                socket.getOutputStream().write(file);
                socket.shutdownOutput();
                check(socket.getInputStream().readAllBytes(), right, "Socket");
            }
            try (var channel = SocketChannel.open(new InetSocketAddress(address, port));
                    var from = FileChannel.open(Path.of("file"))) {
                // By sendfile(2).
                for (long at = 0; at < file.length; ) {
                    at += from.transferTo(at, file.length - at, channel);
                }
                channel.shutdownOutput();
                var got = ByteBuffer.allocateDirect(right.length + 1);
                while (channel.read(got) > 0) { }
                byte[] all = new byte[got.flip().remaining()];
                got.get(all);
                check(all, right, "SocketChannel");
            }
        }
        System.out.println("answered " + 2 * times);
    }

    interface Waits {
        void run() throws Exception;
    }

    /** Starts a thread that waits, and closes the socket under it. */
    static void closed(String what, AutoCloseable socket, Waits waits) throws Exception {
        var ended = new String[] {"nothing"};
        var thread = new Thread(() -> {
            try {
                waits.run();
            } catch (SocketException | AsynchronousCloseException error) {
                ended[0] = "closed";
            } catch (Exception error) {
                ended[0] = error.toString();
            }
        });
        thread.start();
        // Most times it waits by then.
        Thread.sleep(200);
        socket.close();
        thread.join();
        System.out.println(what + " " + ended[0]);
    }

    static void closes() throws Exception {
        var plain = new ServerSocket(0);
        var peer = new Socket("127.0.0.1", plain.getLocalPort());
        var accepted = plain.accept();
        closed("Socket.read", peer, () -> peer.getInputStream().read());
        if (accepted.getInputStream().read() != -1) {
            throw new IllegalStateException("the peer does not see the end");
        }
        accepted.close();
        closed("ServerSocket.accept", plain, () -> plain.accept());
        var channel = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        var one = SocketChannel.open(channel.getLocalAddress());
        var other = channel.accept();
        closed("SocketChannel.read", one, () -> one.read(ByteBuffer.allocate(1)));
        if (other.read(ByteBuffer.allocate(1)) != -1) {
            throw new IllegalStateException("the peer does not see the end");
        }
        other.close();
        closed("ServerSocketChannel.accept", channel, () -> channel.accept());
    }

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "plain" -> plain(Integer.parseInt(words[1]));
            case "nio" -> nio(Integer.parseInt(words[1]));
            case "ask" -> ask(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            default -> closes();
        }
    }
}
