// A stranger's program: it knows the installed headers and nothing else.
#include <rdma++/rdma.h>

#include <iostream>

int main() {
  for (const rdma::Device& device : rdma::Device::all()) std::cout << device.name() << '\n';
  rdma::Listener listener{rdma::SocketAddress::of("127.0.0.1", 0)};
  return listener.port() != 0 ? 0 : 1;
}
