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
//                           <- secret --        6 made here, for who sent a good file
//   7 it has arrived        -- proof -->

#include "labs/file/settings.h"

Settings settings;

namespace {

void add_options(lab::OwnOptions& own) {
  own.existing_file("--file", settings.file, "Client: what to send [a generated one of --size]");
  own.existing_folder("--into", settings.into, "Server: where to keep it [a temporary folder]");
  own.bytes("--piece", settings.piece, {1, 64 << 20}, "Bytes of one WRITE");
  own.bytes("--most", settings.most, {}, "Server: bytes of the longest file to take");
  own.number("--id", settings.id, {}, "Client: the id that asks for the secret");
  own.choice("--break", settings.broken,
             {{"hash", Break::hash}, {"truncate", Break::truncate}, {"die", Break::die}},
             "Both ends: a mistake on purpose, which the receiver must refuse");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "file",
       .idea = "A file by WRITE in pieces, kept only when its hash is right; then a secret",
       .size = 4 << 20,
       .layout = 2,
       .more = add_options},
      receiver, sender);
}
