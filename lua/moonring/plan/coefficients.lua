--- What measurements may correct in a prediction of memory: numbers of full-length tensors, and
-- budgets in bytes. Letters as in memory.lua.

return {
  -- [t, D] of a bytes in a block's backward: the gradient of what went in, in the place of that of
  -- what came out.
  stream = 1,
  -- On a CPU [t, Hk, d] twice: gradients of keys and values that threads hold for themselves.
  key_sums = 1,
  -- A layer that keeps its graph: [t, D] of a bytes, [t, D] of e bytes, [t, I] of e bytes, beside
  -- attention's.
  graph_stream = 2, graph_normed = 1, graph_mlp = 2,
  -- [t, I] of e bytes where the MLP is never tiled: gate, up and their product, and the gradients
  -- of these.
  whole_mlp = 6,
  -- Bytes a logit where they are made whole: in bf16, in fp32, their log-softmax, its gradient
  -- (Transformers' way: 2 + 4 + 4 + 4).
  whole_logits = 14,
  -- The same where a reference answers meanwhile: the policy's in fp32 and their log-softmax, and
  -- the reference's 2 + 4 + 4.
  whole_pair_logits = 18,
  -- Mixers that are not attention. What their rule has in one tensor at a time
  -- (mixers/packed_heads.h) and how many such tensors there are in its backward; of a norm with a
  -- gate in its backward [V], and of a convolution [C], in the type of sums
  -- (model/blocks/gated_norm.cc, mixers/short_convolution.cc).
  rule_numbers = { cpu = 2 ^ 17, cuda = 2 ^ 23 }, rule_work = 30, norm_work = 5,
  convolution_work = 5,
  -- Layers whose checkpoints stay. On the host: three on their way out in the forward
  -- (model/blocks/host_store.cc), the final norm's input one of them; one in use and one read ahead
  -- in the backward. On disk: one in use; what is read ahead is the kernel's cache.
  offloaded_layers = { cpu = 3, disk = 1 }, offloaded_back = { cpu = 2, disk = 1 },
  gathered_blocks = 2, -- blocks whose weights are whole under ZeRO-3: one in use, one fetched ahead
  -- What a tile of rows in work may take, and the least of them (model/blocks/row_tiles.h).
  tile_bytes = 2 ^ 26, tile_rows = { cpu = 512, cuda = 8192 },
  -- What a row of a tile takes in its backward, as tiles are cut by it and a CPU's processes were
  -- measured: [I] and [D] of a bytes, beside its heads (model/blocks/transformer_block.cc); [D]
  -- besides for each expert that a token is sent to.
  tile_mlp = 5, tile_stream = 7, tile_chosen = 3,
  -- Of logits, in every dtype that they are in, and the fewest rows (objectives/log_prob.h).
  chunk_bytes = 2 ^ 26, logit_rows = { cpu = 1, cuda = 4096 },
  -- Of W + s B A at a time, whose rows' norms DoRA wants, in fp32 (model/blocks/projection.cc).
  norm_elements = 2 ^ 24,
  host_piece = 2 ^ 25, -- in which gradients go to sums on a GPU's host (trainer/host_sums.h)
  -- Moments that are not held in full: numbers of a piece in work, and bytes a number of it, by the
  -- bytes that one is held in: both in fp32, and what rounds them (trainer/moment.cc).
  moment_piece = 2 ^ 22, moment_work = { bf16 = 36, codes = 16 },
  zero_bucket = 2 ^ 25, -- in which gradients and weights go to and from shards
  -- Of a process that has not begun, anonymous: on a CPU 61 MiB after its start, 20 more with its
  -- data (measured: 17 for 1,090 rows of 180 thousand tokens), 40 that the allocator keeps between
  -- two trims (base/memory/heap.h).
  base = { cpu = 128e6 },
  -- The tokenizer's tables, on a CPU, for each id (measured, as they are built: 35 MB of SmolLM2's
  -- 49,152, 134 MB of Qwen 3's 151,643).
  tokenizer = 900,
  -- Pages of the program and of its libraries that a run on a CPU has read (measured: 81 to 83
  -- MiB). They are the files', and the kernel lets go of them.
  libraries = 82 * 2 ^ 20,
  -- A GPU's own, in bytes.
  gpu = {
    -- The driver's, with the kernels that are loaded; outside of LibTorch's allocator (assumed:
    -- none was measured yet).
    context = 500 * 2 ^ 20,
    -- A workspace for each handle and stream (LibTorch 2.11, CublasHandlePool.cpp), here one of
    -- each: 32 MiB on Hopper and Blackwell, 8.1 MiB before.
    cublas = 2 ^ 25,
    nccl = 2 ^ 28, -- buffers of a group of 2 or more ranks (assumed)
    -- The last page of each of the allocator's pools, 20 MiB where segments grow: for computing,
    -- copies to the host, and collectives.
    pages = 3 * 20 * 2 ^ 20,
  },
}
