// Lab: kv-cache
//
// Learn: inference in two processes. Prefill computes the KV cache of a prompt, block by block.
//        Decode READs the blocks that it needs, when it needs them; prefill's program takes no
//        part. So prefill can't see whether a block is still read, and a READ can't see that its
//        block was replaced. Somebody must say when a block may be reused: decode, when it is done.
// Run:   verbena lab kv-cache               both ends on this machine
//        verbena lab kv-cache server | verbena lab kv-cache client HOST
// Try:   --without lease, --slots 16, --slots 1024, --depth 1
//
//   prefill (server)                               decode (client)
//   1 a cache, the right to READ it
//   2 compute the blocks that aren't there
//   3 where they are          -- block table -->
//                                                  4 a batch; a token needs some of the blocks
//                             <-- READ, READ, …    5 fetch these, several in flight
//                                                  6 is it that block, and whole?
//   7 its slots may be reused <-- done ---------     no more tokens

#include "labs/kv-cache/settings.h"

Settings settings;

namespace {

void add_options(lab::OwnOptions& own) {
  own.means("--size", "Server: bytes of a block", {1, 16 << 20});
  own.means("--iters", "Client: requests to decode", {1, 1 << 24});
  own.number("--slots", settings.slots, {kPromptBlocks, 1 << 16}, "Server: slots of the cache");
  own.number("--depth", settings.depth, {1, 64}, "Client: READs in flight");
  own.choice("--without", settings.lease, {{"lease", false}},
             "Server: reuse a block without waiting until decode is done with it");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "kv-cache",
                   .idea = "Blocks of a KV cache by READ, on demand; when a block may be reused",
                   .size = 64 << 10,
                   .iters = 64,
                   .more = add_options},
                  prefill, decode);
}
