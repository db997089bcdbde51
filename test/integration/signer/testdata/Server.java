import java.io.FileInputStream;
import java.net.URI;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

// Server answers TLS connections with "ok" to clients whose certificate its truststore verifies. It
// reads both stores from the variables that Spring Boot's properties server.ssl.* have, as Spring
// Boot does; Kafka's ssl.* say the same.
public class Server {
    static KeyStore load(String kind) throws Exception {
        KeyStore store = KeyStore.getInstance(System.getenv("SERVER_SSL_" + kind + "TYPE"));
        try (FileInputStream in = new FileInputStream(URI.create(System.getenv("SERVER_SSL_" + kind)).getPath())) {
            store.load(in, System.getenv("SERVER_SSL_" + kind + "PASSWORD").toCharArray());
        }
        return store;
    }

    public static void main(String[] args) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(load("KEYSTORE"), System.getenv("SERVER_SSL_KEYSTOREPASSWORD").toCharArray());
        TrustManagerFactory roots = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        roots.init(load("TRUSTSTORE"));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), roots.getTrustManagers(), null);
        SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0);
        server.setNeedClientAuth(System.getenv("SERVER_SSL_CLIENTAUTH").equals("need"));
        System.out.println(server.getLocalPort());
        while (true) {
            try (SSLSocket s = (SSLSocket) server.accept()) {
                s.getOutputStream().write("ok".getBytes());
            } catch (java.io.IOException e) {
                System.err.println(e);
            }
        }
    }
}
