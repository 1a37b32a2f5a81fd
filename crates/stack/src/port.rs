//! Free TCP ports for servers that cannot bind port 0.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port of 127.0.0.1 that is bound but not listened on.
///
/// While this lives, the kernel assigns the port neither to a socket bound to port 0 nor to an
/// outgoing connection. A server can still bind it by number if it sets `SO_REUSEADDR`, as nginx and
/// nearly every other server does: Linux refuses that only between two sockets of which one listens.
/// So no other process can take the port, unlike with the usual "bind port 0, close, pass it on".
///
/// For a server without `SO_REUSEADDR`, drop this just before starting it. The kernel picks ports at
/// random from tens of thousands, so a collision is rare, not impossible.
#[derive(Debug)]
pub struct PortReservation {
    port: u16,
    _socket: OwnedFd,
}

impl PortReservation {
    /// Reserves a port of the kernel's choice.
    ///
    /// # Errors
    /// When there is no free socket or port.
    pub fn new() -> io::Result<Self> {
        Self::at(Ipv4Addr::LOCALHOST)
    }

    /// Reserves a port of all addresses, for a server that listens on all: a port of 127.0.0.1 alone may be in use on
    /// another address.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_all_addresses() -> io::Result<Self> {
        Self::at(Ipv4Addr::UNSPECIFIED)
    }

    fn at(address: Ipv4Addr) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(address, 0))?;
        let address = SocketAddrV4::try_from(getsockname(&socket)?)?;
        Ok(Self { port: address.port(), _socket: socket })
    }

    /// The port's number.
    pub fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_reserved_port_can_be_listened_on_by_the_server_it_is_for() {
        let reservation = PortReservation::new().unwrap();
        // The standard library sets SO_REUSEADDR.
        TcpListener::bind((Ipv4Addr::LOCALHOST, reservation.port())).unwrap();
    }

    #[test]
    fn a_port_of_all_addresses_is_nobodys_on_a_single_one() {
        let reservation = PortReservation::of_all_addresses().unwrap();
        let other = Ipv4Addr::new(127, 0, 0, 2);
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let taken = bind(socket.unwrap(), &SocketAddrV4::new(other, reservation.port()));
        assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE));
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, reservation.port())).unwrap();
    }

    #[test]
    fn no_port_is_reserved_twice() {
        let reservations: Vec<_> = (0..500).map(|_| PortReservation::new().unwrap()).collect();
        let ports: HashSet<u16> = reservations.iter().map(PortReservation::port).collect();
        assert_eq!(ports.len(), reservations.len());
    }
}
