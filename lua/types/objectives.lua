---@meta moonring.native.objectives

--- What a step counts and sums. An objective gives a count, known before the first forward, and sums; the loop divides, once,
--- by the count of the whole step over all dp ranks.
---@class moonring.objectives
local objectives = {}

---@class moonring.SftOptions
---@field count? "labels" | "targets" labels that are not -100 before the shift, as LLaMA-Factory divides, or predictions; "labels" where absent

--- Supervised fine-tuning: -sum of the targets' log-probs.
---@param options? moonring.SftOptions
---@return moonring.Sft
function objectives.sft(options) end

---@class moonring.LogProbOptions
---@field dtype? moonring.Dtype of the head's product, `model:matmul_dtype()`; fp64 hidden states always take fp64; "fp32" where absent

--- log softmax(W h_t)[y_t] of each row, in chunks of rows: [T, V] never exists, forward or backward. Differentiable in hidden_TD; the head's
--- gradient is added to its Parameter. Rows without a target are not projected and give 0.
--- Cost: 2 N V D flops forward and 6 N V D backward for N targets; 64 MiB of logits at a time.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16 or fp64
---@param head_VD moonring.Parameter [V, D], `model:head()`
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param options? moonring.LogProbOptions
---@return moonring.Tensor log_prob_T [T] in fp32, or fp64
function objectives.log_prob(hidden_TD, head_VD, targets_T, options) end

--- What the head says at some rows, to look at a model. Not differentiable.
---@param hidden_ND moonring.Tensor [N, D]
---@param head_VD moonring.Parameter [V, D]
---@param first_ids integer K: logits of ids 0 .. K-1
---@param options? moonring.LogProbOptions
---@return moonring.Tensor logits_NK [N, K]
---@return moonring.Tensor logsumexp_N [N], over the whole vocabulary
function objectives.logits(hidden_ND, head_VD, first_ids, options) end

--- The sum of each document's values over all its tokens, on whatever sp rank: what a sequence-level objective is made from. Differentiable; its
--- backward communicates nothing. Collective over sp. No parameter may be used after it.
---@param values_T moonring.Tensor [T_local], in the layout's order
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor sums fp64 [documents], the same on every sp rank
function objectives.document_sums(values_T, layout, mesh) end

--- How many predictions each document has. Nothing is communicated.
---@param sequence moonring.Sequence
---@return moonring.Tensor targets fp64 [documents]
function objectives.document_targets(sequence) end

--- Weights of tokens for `ld_alpha` (LD-DPO): of a pair's two answers, chosen and rejected in turn, the first min(n, n') predictions weigh 1 and those after
--- ld_alpha. Of the whole stream: `layout:cut` it.
---@param sequence moonring.Sequence
---@param ld_alpha number 0 to 1
---@return moonring.Tensor weights_T fp64 [T]
function objectives.desensitized(sequence, ld_alpha) end

---@class moonring.Sft
local Sft = {}

--- What these documents add to the step's divisor. Labels alone decide it.
---@param labels_T moonring.Tensor int64 [T], unshifted, uncut
---@param lengths integer[] tokens of each document; they sum to T
---@return integer
function Sft:count(labels_T, lengths) end

--- This rank's sum of -log p: divide by the step's count, then `backward()`. Sums over dp x sp are the whole step's.
---@param log_prob_T moonring.Tensor [T_local]
---@param targets_T moonring.Tensor int64 [T_local]
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics by name {sum, count}: "nll", the same sum and how many targets
function Sft:loss(log_prob_T, targets_T) end

function Sft:close() end

return objectives
