#!/bin/sh
set -eu
dir=$(mktemp -d)
chmod 711 "$dir" # nginx's workers may be another user
conf=$dir/nginx.conf
cat >"$conf" <<EOF
daemon off;
pid $dir/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path $dir/body;
  proxy_temp_path $dir/proxy; fastcgi_temp_path $dir/fastcgi; uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
  server {
    listen 8443 ssl;
    ssl_certificate     $TLS_CERT_FILE;
    ssl_certificate_key $TLS_PRIVATE_KEY_FILE;
    location / { return 200 "served\n"; }
  }
}
EOF

sum() { cat "$TLS_CERT_FILE" "$TLS_PRIVATE_KEY_FILE" | cksum; }
loaded=$(sum)
while sleep 2; do
  now=$(sum)
  if [ "$now" = "$loaded" ]; then continue; fi
  if nginx -q -t -c "$conf" && nginx -s reload -c "$conf"; then
    loaded=$now
  else
    echo "keeping the old certificate" >&2
  fi
done &
exec nginx -c "$conf"
