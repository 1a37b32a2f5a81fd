# start.sh PORT DIR RATE: nginx in DIR, as said in experiment.toml.
[ -x /usr/sbin/nginx ] || { echo "nginx is not installed: apt-get install nginx-light" >&2; exit 1; }
[ "$(id -u)" = 0 ] && user="user root;"
cat > "$2/nginx.conf" <<END
$user daemon off; worker_processes 1; pid nginx.pid; error_log /dev/null;
events { worker_connections 1024; }
http {
  access_log off; limit_req_log_level info; limit_req_status 503;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  limit_req_zone \$server_name zone=all:1m rate=$3r/s;
  server {
    listen 127.0.0.1:$1; server_name all;
    location = /ready { return 200; }
    location = /x { limit_req zone=all burst=8 nodelay; try_files /none @fine; }
    location @fine { return 200; }
  }
}
END
exec /usr/sbin/nginx -p "$2" -c nginx.conf -e /dev/null
