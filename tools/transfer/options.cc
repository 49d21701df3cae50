#include "tools/transfer/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace verbena::transfer {
namespace {

constexpr auto kSendExamples = R"(Examples:
  verbena send photos notes.txt localhost         to `verbena receive DIR` of yours on this host
  verbena send --key-file key data.bin 192.0.2.7  to another host: the same key on both
  verbena send --limit 100M data.bin 192.0.2.7    at most 100 MB a second
  verbena send --json data.bin localhost | jq .

Start the receiver first. Run the same command again after a break: what was verified isn't sent
again. Nothing is encrypted.

Carried: bytes and holes of files, names, permission bits, times of modification, folders, symbolic
links. Not carried: owners, access control lists, extended attributes, hard links, devices, sockets.

Exit status: 0; 1 if anything was not placed at the receiver; 2 if an option is wrong; 130 if it was
interrupted.)";

constexpr auto kReceiveExamples = R"(Examples:
  verbena receive incoming                        one sender: a process of yours on this host
  head -c 32 /dev/urandom > key; chmod 600 key    a key for two hosts; copy it to the sender
  verbena receive --key-file key incoming         a sender anywhere that has the same key
  verbena receive --keep --skip incoming          sender after sender, until interrupted

A file gets its name when all of it is there and verified. Until then it is in
DIR/.verbena-receive, and a second run continues from it. Nothing is encrypted.

Exit status: 0; 1 if anything was not placed; 2 if an option is wrong; 130 if it was interrupted.)";

void add_common(CLI::App* command, CommonOptions& options) {
  command->add_option("--port", options.port, "Use this port of rdma_cm")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->add_option("--device", options.device, "Use this RDMA device")->type_name("NAME");
  command
      ->add_option("--key-file", options.key_file,
                   "Prove to the peer that both have the same key, of 16 to 4096 bytes")
      ->type_name("FILE");
  command
      ->add_option("--timeout", options.timeout,
                   "Give up after SECONDS without a sign of life of the peer")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--json", options.json, "Print JSON lines");
}

}  // namespace

CLI::App* add_send(CLI::App& app, SendOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "send", "Send files and folders by RDMA to verbena receive: verbena send PATH… HOST");
  add_common(command, options.common);
  command->add_option("--limit", options.limit, "Send at most that many bytes a second (K, M, G)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(true));
  command->add_option("PATH", options.words, "What to send, and where to")
      ->required()
      ->expected(2, -1)
      ->type_name("… HOST");
  command->footer(kSendExamples);
  return command;
}

CLI::App* add_receive(CLI::App& app, ReceiveOptions& options) {
  CLI::App* const command =
      app.add_subcommand("receive", "Receive files and folders by RDMA: verbena receive DIR");
  add_common(command, options.common);
  auto* const force = command->add_flag("--force", options.force, "Overwrite what is there");
  command->add_flag("--skip", options.skip, "Keep what is there, and receive the rest")
      ->excludes(force);
  command->add_flag("--keep", options.keep, "Serve sender after sender, until interrupted");
  command->add_flag("--no-sync", options.no_sync,
                    "Don't wait until files are on the disk before they get their names");
  command->add_option("--address", options.address, "Listen on this address only")
      ->type_name("ADDRESS");
  command->add_option("--queue-pairs", options.queue_pairs, "Receive over that many queue pairs")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--window", options.window,
                   "Register that many bytes of memory for all chunks in flight (K, M, G)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("DIR", options.folder, "The folder, which must exist")
      ->required()
      ->type_name("");
  command->footer(kReceiveExamples);
  return command;
}

}  // namespace verbena::transfer
