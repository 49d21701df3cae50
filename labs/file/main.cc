// Lab: file
//
// Learn: a protocol around one-sided WRITEs. Messages say what is coming, where it may go and
//        whether it arrived; the file itself passes no receive and no program at the other end.
//        Trust nothing that comes: the receiver decides from the hash, after it has taken the
//        sender's right to write away.
// Run:   verbena lab file                   both ends on this machine
//        verbena lab file server --into DIR | verbena lab file client HOST --file PATH
// Try:   --break hash, --break truncate, --break die
//
//   sender                                      receiver
//   1 length and hash       -- offer -->
//                           <- grant ---        2 memory, and the right to write there
//   3 WRITE, WRITE, WRITE   -- done --->
//                           <- verdict -        4 hash compared: kept, or thrown away
//   5 who asks              -- id ----->
//                           <- secret --        6

#include <CLI/CLI.hpp>
#include <map>

#include "labs/file/settings.h"

Settings settings;

namespace {

void add_options(CLI::App& app) {
  static const std::map<std::string, Break> kBreaks{
      {"hash", Break::hash}, {"truncate", Break::truncate}, {"die", Break::die}};
  app.add_option("--file", settings.file, "Client: what to send [a generated one of --size]")
      ->check(CLI::ExistingFile);
  app.add_option("--into", settings.into, "Server: where to keep it [a temporary folder]")
      ->check(CLI::ExistingDirectory);
  app.add_option("--piece", settings.piece, "Bytes of one WRITE")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{1}, std::size_t{64} << 20))
      ->capture_default_str();
  app.add_option("--most", settings.most, "Server: the longest file that is welcome")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--id", settings.id, "Client: whose secret to ask for")->capture_default_str();
  app.add_option_function<std::string>(
         "--break", [](const std::string& what) { settings.broken = kBreaks.at(what); },
         "What goes wrong on purpose, and must be refused")
      ->check(CLI::IsMember(&kBreaks))
      ->type_name("WHAT");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "file",
                   .idea = "A file by WRITEs in pieces, kept only when its hash is right",
                   .size = 4 << 20,
                   .more = add_options},
                  receiver, sender);
}
