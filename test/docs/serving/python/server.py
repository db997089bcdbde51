import argparse, http.server, logging, os, ssl, threading, time

parser = argparse.ArgumentParser()
parser.add_argument("--tls-cert-file", default=os.environ.get("TLS_CERT_FILE"))
parser.add_argument("--tls-private-key-file", default=os.environ.get("TLS_PRIVATE_KEY_FILE"))
flags = parser.parse_args()


def load():  # always a new context: one in use would have the new certificate with the old key for a moment
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags.tls_cert_file, flags.tls_private_key_file)  # an error if they do not match
    return context


def reload():
    global current
    while True:
        time.sleep(2)
        try:
            current = load()
        except OSError as e:  # ssl.SSLError is one
            logging.warning("keeping the old certificate: %s", e)


def choose(connection, server_name, context):  # in every handshake, also without a server name
    connection.context = current


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served\n")


current = load()
threading.Thread(target=reload, daemon=True).start()
first = load()
first.sni_callback = choose
server = http.server.ThreadingHTTPServer(("", 8443), Handler)
server.socket = first.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
