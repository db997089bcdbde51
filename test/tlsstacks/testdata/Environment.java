import java.net.Socket;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** Connects to HOST PORT, and to each pair that follows, with what Java trusts by its options. */
public class Environment {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 2) {
            int port = Integer.parseInt(args[i + 1]);
            try (Socket plain = new Socket("127.0.0.1", port)) {
                SSLSocket tls = (SSLSocket) ((SSLSocketFactory) SSLSocketFactory.getDefault()).createSocket(plain, args[i], port, true);
                SSLParameters parameters = tls.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                tls.setSSLParameters(parameters);
                tls.startHandshake();
                System.out.println("verified");
            } catch (SSLException e) {
                System.out.println("refused: " + e.getMessage());
            }
        }
    }
}
