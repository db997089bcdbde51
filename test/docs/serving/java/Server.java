import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.ByteArrayInputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.*;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.*;

public class Server {
    record Pair(PrivateKey key, X509Certificate[] chain) {}

    /** Serves the newest pair. A handshake asks for key and chain by alias, so each pair has its own. */
    static class Pairs extends X509ExtendedKeyManager {
        final Map<String, Pair> pairs = new ConcurrentHashMap<>();
        volatile String newest;

        void load(Path certFile, Path keyFile) throws Exception {
            byte[] cert = Files.readAllBytes(certFile);
            String pem = Files.readString(keyFile).replaceAll("-----[A-Z ]+-----|\\s", "");
            var chain = CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(cert)).toArray(X509Certificate[]::new);
            String algorithm = chain[0].getPublicKey().getAlgorithm();
            var key = KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
            var signature = Signature.getInstance(Map.of("RSA", "SHA256withRSA", "EC", "SHA256withECDSA").getOrDefault(algorithm, algorithm));
            signature.initSign(key);
            signature.update(cert);
            byte[] signed = signature.sign();
            signature.initVerify(chain[0]);
            signature.update(cert);
            if (!signature.verify(signed)) throw new KeyException("the private key is not that of the certificate");
            String alias = chain[0].getSerialNumber().toString(16);
            pairs.put(alias, new Pair(key, chain));
            newest = alias;
        }

        public String chooseEngineServerAlias(String keyType, Principal[] issuers, SSLEngine engine) {
            String alias = newest;
            return pairs.get(alias).key().getAlgorithm().equals(keyType) ? alias : null;
        }
        public String chooseServerAlias(String keyType, Principal[] issuers, Socket socket) { return chooseEngineServerAlias(keyType, issuers, null); }
        public PrivateKey getPrivateKey(String alias) { return pairs.get(alias).key(); }
        public X509Certificate[] getCertificateChain(String alias) { return pairs.get(alias).chain(); }
        public String[] getServerAliases(String keyType, Principal[] issuers) { return new String[] {newest}; }
        public String[] getClientAliases(String keyType, Principal[] issuers) { return null; }
        public String chooseClientAlias(String[] keyTypes, Principal[] issuers, Socket socket) { return null; }
    }

    static Path file(String[] args, String flag, String variable) {
        for (String arg : args) if (arg.startsWith(flag + "=")) return Path.of(arg.substring(flag.length() + 1));
        return Path.of(System.getenv(variable));
    }

    public static void main(String[] args) throws Exception {
        Path certFile = file(args, "--tls-cert-file", "TLS_CERT_FILE"), keyFile = file(args, "--tls-private-key-file", "TLS_PRIVATE_KEY_FILE");
        var pairs = new Pairs();
        pairs.load(certFile, keyFile);
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> {
            try {
                pairs.load(certFile, keyFile);
            } catch (Exception e) { // what is thrown from here would end the schedule
                System.err.println("keeping the old certificate: " + e);
            }
        }, 2, 2, TimeUnit.SECONDS);

        var context = SSLContext.getInstance("TLS");
        context.init(new KeyManager[] {pairs}, null, null);
        var server = HttpsServer.create(new InetSocketAddress(8443), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            byte[] body = "served\n".getBytes();
            exchange.sendResponseHeaders(200, body.length);
            try (var out = exchange.getResponseBody()) { out.write(body); }
        });
        server.start();
    }
}
