import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * A client of tlsstacks: reads PORT, HOST and the truststores, separated by
 * commas, from each line, connects, and prints the outcome.
 */
public class Client {
    static final int TIMEOUT = 20_000;
    static final char[] PASSWORD = "changeit".toCharArray();

    /** Trusts what the truststores hold, by the default (PKIX) trust manager. */
    static SSLContext context(String[] files) throws Exception {
        KeyStore all = KeyStore.getInstance("PKCS12");
        all.load(null, null);
        for (String file : files) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            try (InputStream in = new FileInputStream(file)) {
                store.load(in, PASSWORD);
            }
            all.setCertificateEntry(file, store.getCertificate("root"));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(all);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    static String connect(int port, String host, String[] files) throws Exception {
        SSLContext context = context(files);
        try (Socket plain = new Socket()) {
            plain.connect(new InetSocketAddress("127.0.0.1", port), TIMEOUT);
            plain.setSoTimeout(TIMEOUT);
            SSLSocket tls = (SSLSocket) context.getSocketFactory().createSocket(plain, host, port, true);
            SSLParameters parameters = tls.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            tls.setSSLParameters(parameters);
            tls.startHandshake();
            tls.getOutputStream().write(("GET / HTTP/1.0\r\nHost: " + host + "\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
            String said = new String(tls.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
            return said.endsWith("\r\n\r\nserved\n") ? "verified" : "broken: another answer";
        } catch (IOException e) {
            Throwable last = e;
            boolean certificate = false;
            for (Throwable t = e; t != null; t = t.getCause()) {
                certificate |= t instanceof CertificateException;
                last = t;
            }
            return (certificate ? "refused: " : "broken: ") + String.valueOf(last.getMessage()).replace('\n', ' ');
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            System.out.println(connect(Integer.parseInt(words[0]), words[1], words[2].split(",")));
        }
    }
}
