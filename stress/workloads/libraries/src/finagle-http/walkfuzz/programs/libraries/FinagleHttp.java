package walkfuzz.programs.libraries;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

import com.twitter.finagle.Http;
import com.twitter.finagle.ListeningServer;
import com.twitter.finagle.Service;
import com.twitter.finagle.http.Method;
import com.twitter.finagle.http.Request;
import com.twitter.finagle.http.Response;
import com.twitter.finagle.http.Status;
import com.twitter.util.Await;
import com.twitter.util.Duration;
import com.twitter.util.Future;

import walkfuzz.programs.Checks;
import walkfuzz.programs.Program;
import walkfuzz.programs.Rng;
import walkfuzz.programs.Settings;

/** An HTTP server and its clients in one process, over the loopback interface. Each round is a client with requests one by one and many at once. */
public final class FinagleHttp implements Program {
    private static final int ONE_BY_ONE = 10;
    private static final int AT_ONCE = 30;
    private static final Duration PATIENCE = Duration.fromSeconds(120);
    private ListeningServer server;
    private String address;

    @Override
    public void prepare(Settings settings) throws Exception {
        server = Http.serve(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Answers());
        address = "127.0.0.1:" + ((InetSocketAddress) server.boundAddress()).getPort();
    }

    @Override
    public void round(Rng rng, Checks checks) throws Exception {
        Service<Request, Response> client = Http.newService(address);
        try {
            for (int i = 0; i < ONE_BY_ONE; i++) {
                int n = rng.below(60);
                check(checks, n, Await.result(client.apply(Request.apply("/fibonacci/" + n)), PATIENCE));
            }
            int[] numbers = new int[AT_ONCE];
            List<Future<Response>> answers = new ArrayList<>();
            for (int i = 0; i < AT_ONCE; i++) {
                numbers[i] = rng.below(60);
                answers.add(client.apply(Request.apply("/fibonacci/" + numbers[i])));
            }
            List<Response> all = Await.result(Future.collect(answers), PATIENCE);
            for (int i = 0; i < AT_ONCE; i++) {
                check(checks, numbers[i], all.get(i));
            }
            StringBuilder text = new StringBuilder();
            for (int i = rng.below(3000); i >= 0; i--) {
                text.append((char) ('a' + rng.below(26)));
            }
            Request post = Request.apply(Method.Post(), "/reverse");
            post.setContentString(text.toString());
            checks.same("text from the server", text.reverse().toString(), Await.result(client.apply(post), PATIENCE).getContentString());
            checks.equal("status of a page that is not there", 404, Await.result(client.apply(Request.apply("/nothing")), PATIENCE).statusCode());
        } finally {
            Await.result(client.close(), PATIENCE);
        }
    }

    private static void check(Checks checks, int n, Response response) {
        checks.equal("status", 200, response.statusCode());
        checks.piece();
        checks.same("Fibonacci number " + n + " from the server", Long.toString(fibonacci(n)), response.getContentString());
    }

    private static long fibonacci(int n) {
        long a = 0;
        long b = 1;
        for (int i = 0; i < n; i++) {
            long next = a + b;
            a = b;
            b = next;
        }
        return a;
    }

    /** The server's side. */
    private static final class Answers extends Service<Request, Response> {
        private static final String FIBONACCI = "/fibonacci/";

        @Override
        public Future<Response> apply(Request request) {
            Response response = Response.apply();
            if (request.path().startsWith(FIBONACCI)) {
                response.setContentString(Long.toString(fibonacci(Integer.parseInt(request.path().substring(FIBONACCI.length())))));
            } else if (request.path().equals("/reverse")) {
                response.setContentString(new StringBuilder(request.getContentString()).reverse().toString());
            } else {
                response.status_$eq(Status.NotFound());
            }
            return Future.value(response);
        }
    }

    @Override
    public void close() throws Exception {
        Await.result(server.close(), PATIENCE);
    }
}
