#!/bin/sh
# nginx.sh PORT DIR DIRECTIVE...: nginx as Debian packages it, one worker, with these directives added.
# In the foreground, everything it writes in DIR. It serves the directory `experiments`.
set -eu
port=$1 dir=$2
shift 2
root=$(dirname "$PWD")
cat >"$dir/nginx.conf" <<CONF
# Root's worker would otherwise be a user who may not read the files of everybody.
user $(id -un) $(id -gn);
worker_processes 1;
pid $dir/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
	types { application/json json; }
	access_log off;
	keepalive_requests 1000000;
	client_body_temp_path $dir/body;
	proxy_temp_path $dir/proxy;
	fastcgi_temp_path $dir/fastcgi;
	uwsgi_temp_path $dir/uwsgi;
	scgi_temp_path $dir/scgi;
	server {
		listen 127.0.0.1:$port;
		root $root;
		location = /ready { return 204; }
		$*
	}
}
CONF
PATH=$PATH:/usr/sbin
exec nginx -p "$dir" -c "$dir/nginx.conf" -e stderr -g 'daemon off;'
