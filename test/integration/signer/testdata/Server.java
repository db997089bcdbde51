import java.io.FileInputStream;
import java.net.URI;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;

// Server answers TLS connections with "ok". It reads its keystore from the variables that Spring
// Boot's properties server.ssl.* have, as Spring Boot does.
public class Server {
    public static void main(String[] args) throws Exception {
        char[] password = System.getenv("SERVER_SSL_KEYSTOREPASSWORD").toCharArray();
        KeyStore store = KeyStore.getInstance(System.getenv("SERVER_SSL_KEYSTORETYPE"));
        try (FileInputStream in = new FileInputStream(URI.create(System.getenv("SERVER_SSL_KEYSTORE")).getPath())) {
            store.load(in, password);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0);
        System.out.println(server.getLocalPort());
        while (true) {
            try (SSLSocket s = (SSLSocket) server.accept()) {
                s.getOutputStream().write("ok".getBytes());
            }
        }
    }
}
