import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

/**
 * The JDK's HTTP server (NIO) and its HttpClient.
 *
 * <pre>
 *   Web serve PORT                /file is the file `file`, /digest the SHA-256 of a request's body
 *   Web fetch BASE AT-ONCE TIMES  both of them, compared with the file `file`
 * </pre>
 */
class Web {
    static String digest(byte[] bytes) throws Exception {
        var text = new StringBuilder();
        for (byte each : MessageDigest.getInstance("SHA-256").digest(bytes)) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    static void answer(HttpExchange exchange, byte[] body) throws IOException {
        exchange.sendResponseHeaders(200, body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    static void serve(int port) throws Exception {
        byte[] file = Files.readAllBytes(Path.of("file"));
        // Without an address it listens at `::`, for both families.
        var server = HttpServer.create(new InetSocketAddress(port), 50);
        server.createContext("/file", exchange -> answer(exchange, file));
        server.createContext("/digest", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            try {
                answer(exchange, digest(body).getBytes());
            } catch (IOException error) {
                throw error;
            } catch (Exception error) {
                throw new IOException(error);
            }
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println("ready " + server.getAddress());
    }

    static CompletableFuture<Void> one(HttpClient client, String base, byte[] file, int times)
            throws Exception {
        var right = digest(file);
        var get = HttpRequest.newBuilder(URI.create(base + "/file")).build();
        var body = HttpRequest.BodyPublishers.ofFile(Path.of("file"));
        var post = HttpRequest.newBuilder(URI.create(base + "/digest")).POST(body).build();
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (int round = 0; round < times; round++) {
            all = all.thenCompose(none ->
                client.sendAsync(get, HttpResponse.BodyHandlers.ofByteArray())
            ).thenCompose(got -> {
                if (!Arrays.equals(got.body(), file)) {
                    throw new IllegalStateException(got.body().length + " other bytes");
                }
                return client.sendAsync(post, HttpResponse.BodyHandlers.ofString());
            }).thenAccept(told -> {
                if (!told.body().equals(right)) {
                    throw new IllegalStateException("the server got " + told.body());
                }
            });
        }
        return all;
    }

    static void fetch(String base, int atOnce, int times) throws Exception {
        byte[] file = Files.readAllBytes(Path.of("file"));
        var client = HttpClient.newHttpClient();
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int at = 0; at < atOnce; at++) {
            all.add(one(client, base, file, times));
        }
        for (var each : all) {
            each.get();
        }
        System.out.println("fetched " + 2 * atOnce * times);
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve(Integer.parseInt(words[1]));
        } else {
            fetch(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            System.exit(0);
        }
    }
}
