// lib/verbena/transfer: what `verbena send` and `verbena receive` run, with the environment in
// which a program finds our devices. It is a program of its own because `verbena` itself must start
// where rdma-core isn't installed.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/transfer/interrupts.h"
#include "tools/transfer/options.h"

int main(int argc, char** argv) {
  using namespace verbena::transfer;
  CLI::App app{"", "verbena"};
  app.require_subcommand(1);
  SendOptions send_options;
  ReceiveOptions receive_options;
  const CLI::App* const sends = add_send(app, send_options);
  add_receive(app, receive_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    catch_interrupts();
    return sends->parsed() ? send(send_options) : receive(receive_options);
  } catch (const std::exception& error) {
    std::fputs(
        fmt::format("verbena {}: {}\n", sends->parsed() ? "send" : "receive", error.what()).c_str(),
        stderr);
    return 1;
  }
}
