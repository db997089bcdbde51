# A client of tlsstacks: reads PORT, HOST and the file with the roots from each
# line, connects, and prints the outcome.
import socket
import ssl
import sys

TIMEOUT = 20


def connect(port, host, roots):
    context = ssl.create_default_context(cafile=roots)
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as plain:
            with context.wrap_socket(plain, server_hostname=host) as tls:
                tls.sendall(b"GET / HTTP/1.0\r\nHost: " + host.encode() + b"\r\n\r\n")
                said = b""
                while part := tls.recv(4096):
                    said += part
    except ssl.SSLCertVerificationError as e:
        return "refused: " + e.verify_message
    except OSError as e:
        return "broken: " + str(e).replace("\n", " ")
    return "verified" if said.endswith(b"\r\n\r\nserved\n") else "broken: another answer"


for line in sys.stdin:
    port, host, roots = line.rstrip("\n").split("\t")
    print(connect(int(port), host, roots), flush=True)
