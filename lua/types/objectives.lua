---@meta moonring.native.objectives

--- Training objectives. An objective returns a count, known before the first forward, and loss
--- sums; the training loop divides the sums once, by the count of the whole step over all dp ranks.
---@class moonring.objectives
local objectives = {}

---@class moonring.SftOptions
--- divisor of the loss: labels other than -100 before the shift, as in LLaMA-Factory, or targets;
--- default "labels"
---@field count? "labels" | "targets"
---@field dft? boolean dynamic fine-tuning: a token's term is multiplied by its detached
---   probability; default false
--- entropy-adaptive fine-tuning: a token's term is multiplied by (top_entropy / 3) ^ eaft_alpha,
--- detached; default false
---@field eaft? boolean
---@field eaft_alpha? number 0 or more; default 1

--- Supervised fine-tuning: minus the sum of the targets' log-probs, or a weighted sum. Token level:
--- its sums cover this rank's tokens.
---@param options? moonring.SftOptions
---@return moonring.Sft
function objectives.sft(options) end

---@class moonring.PreferenceOptions
--- "sigmoid" (DPO), "hinge", "ipo", "kto_pair", "orpo", "simpo", "nca_pair" or "robust"; default
--- "sigmoid"
---@field loss? string
---@field beta? number greater than 0; default 0.1
---@field ftx? number factor of an added negative log-likelihood per token of the chosen answer;
---   default 0
---@field simpo_gamma? number margin of simpo; default 0.5
--- assumed fraction of pairs in the wrong order, at most 0.5; for sigmoid and robust; default 0
---@field label_smoothing? number
---@field bco_weight? number factor of an added BCO loss; default 0

--- DPO and related losses on pairs of answers. Sequence level: its sums are the same on every sp
--- rank. Divided by the number of pairs in the step.
---@param options? moonring.PreferenceOptions
---@return moonring.Preference
function objectives.preference(options) end

---@class moonring.PreferenceLossFacts
---@field name string
---@field needs_reference boolean
---@field most_smoothing number largest label_smoothing; 0: the loss has none
--- whether label_smoothing must be less than most_smoothing, because the formula divides by 1 - 2
--- label_smoothing
---@field smoothing_below_most boolean

--- The losses that `preference` supports.
---@return moonring.PreferenceLossFacts[]
function objectives.preference_losses() end

---@class moonring.KtoOptions
---@field beta? number greater than 0; default 0.1
---@field chosen_weight? number weight of desirable answers; default 1
---@field rejected_weight? number weight of undesirable answers; default 1
---@field ftx? number factor of an added negative log-likelihood per token of each desirable answer;
---   default 0

--- KTO on single answers, desirable or not. Sequence level: its sums are the same on every sp rank.
--- Divided by the number of examples in the step.
---@param options? moonring.KtoOptions
---@return moonring.Kto
function objectives.kto(options) end

---@class moonring.PolicyGradientOptions
--- "grpo", "bnpo", "dapo", "dr_grpo" or "rloo"; default "dapo"
---@field loss_type? string
---@field beta? number factor of the KL term, 0 or more; default 0
---@field epsilon? number lower clipping range, 0 or more; default 0.2
---@field epsilon_high? number upper clipping range, 0 or more; default epsilon
---@field delta? number greater than 0, upper bound of a ratio; default none
--- "token": one probability ratio for each token; "sequence": one for a whole answer (GSPO);
--- default "token"
---@field importance_sampling_level? "token" | "sequence"
---@field max_completion_length? integer tokens; the divisor of dr_grpo

--- GRPO and related losses on answers with advantages. Sequence level: its sums are the same on
--- every sp rank. Divided by the value of `count`.
---@param options? moonring.PolicyGradientOptions
---@return moonring.PolicyGradient
function objectives.policy_gradient(options) end

---@class moonring.PolicyLossFacts
---@field name string
--- whether the loss uses one ratio for each answer, from summed log-probs, with the KL term in the
--- rewards; beta, delta, importance_sampling_level and high_entropy are then not available
---@field of_sequences boolean

--- The losses that `policy_gradient` supports.
---@return moonring.PolicyLossFacts[]
function objectives.policy_losses() end

--- The smallest entropy among the fraction `share` of a step's tokens with the highest entropy
--- (top_entropy_quantile): the quantile 1 - share over all ranks' tokens. Collective over all
--- ranks.
---@param entropies moonring.Tensor [n], of this rank's counted tokens in the whole step
---@param share number from 0 to 1
---@param mesh moonring.Mesh
---@return number threshold infinity if no rank has a token
function objectives.entropy_threshold(entropies, share, mesh) end

---@class moonring.HeadOptions
--- dtype of the head's matrix product, `model:matmul_dtype()`; always fp64 for fp64 hidden states;
--- default "fp32"
---@field dtype? moonring.Dtype

---@class moonring.LogProbOptions: moonring.HeadOptions
---@field chunk_bytes? integer bytes of logits that are computed at a time; default 64 MiB
---@field chunk_rows? integer least number of rows of logits at a time; 0 or absent: 1 on the CPU,
---   4096 on a GPU
--- e, from 0 to less than 1: the result is (1 - e) log p[y_t] + e mean(log p); default 0
---@field label_smoothing? number
--- greater than 0: logits are divided by it, after scale and softcap, also for statistics; default
--- 1
---@field temperature? number
--- values to return for each row, from the same logits: "mean_logit" over the vocabulary, "greedy"
--- the most likely id (-1 without a target), "top_entropy" the entropy of the 20 largest logits,
--- "entropy" that of all logits
---@field statistics? string[]

--- Computes log softmax(W h_t)[y_t] for each row, in chunks of rows: logits [T, V] never exist at
--- once, in forward or backward. Differentiable in hidden_TD; the head's gradient is added to its
--- Parameter. Rows without a target are skipped and return 0. Cost: 2 N V D flops forward and 6 N V
--- D backward for N targets; 64 MiB of logits at a time.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param options? moonring.LogProbOptions
---@return moonring.Tensor log_prob_T [T], fp32 or fp64
---@return table<string, moonring.Tensor>? statistics by name, [T] each, detached; nil if none was
---   requested
function objectives.log_prob(hidden_TD, head, targets_T, options) end

---@class moonring.ChunkOptions: moonring.HeadOptions
---@field chunk_bytes? integer bytes of logits in memory at a time; default 64 MiB
---@field chunk_rows? integer least number of rows of logits at a time; 0 or absent: 1 on the CPU;
---   on a GPU as many as use the memory of 4096 rows in log_prob
--- only ids 0 .. vocabulary - 1 are used, as if there were no others; default all
---@field vocabulary? integer

---@class moonring.EntropyOptions: moonring.ChunkOptions
---@field temperature? number greater than 0: logits are divided by it; default 1

---@class moonring.DivergenceOptions: moonring.EntropyOptions
--- for a reference q and a policy p: "forward" is KL(q || p), "reverse" is KL(p || q), "js" is beta
--- KL(q || m) + (1 - beta) KL(p || m) with m = beta q + (1 - beta) p. None is multiplied by
--- temperature^2
---@field kind "forward" | "reverse" | "js"
---@field beta? number for "js", between 0 and 1, exclusive; default 0.5
--- [T, D'] hidden states of the reference, of any width; with reference_head
---@field reference_hidden? moonring.Tensor
---@field reference_head? moonring.Head its scale and softcap are applied
---@field reference_dtype? moonring.Dtype dtype of the reference's product; default "fp32"
--- int64 [T, K], instead of these two: the reference's most likely ids of each token, distinct in a
--- row
---@field ids? moonring.Tensor
--- [T, K] the log-probs of these ids, with the temperature already applied; -inf: q is 0
---@field log_probs? moonring.Tensor
--- how ids outside the K are treated. "bucket": they form one more outcome with the remaining
--- probability (for the reference at least 2^-23, or 2^-52 for fp64 log-probs). "renormalize": both
--- distributions are restricted to the K ids; log_probs may then have a constant offset. "zero":
--- the reference is renormalized over its K ids, the policy is not; not with "reverse". Default
--- "bucket"
---@field rest? "bucket" | "renormalize" | "zero"

--- Computes the divergence between the next-token distributions of a policy and a reference over
--- the whole vocabulary, in chunks of rows: logits [T, V] never exist at once, in forward or
--- backward. Differentiable in hidden_TD; the head's gradient is added to its Parameter. The
--- reference gets no gradient. Rows without a target are skipped and return 0. Both vocabularies
--- must have the same size, or `vocabulary` must restrict them. Cost: that of log_prob, plus 2 N V
--- D' flops in the forward and in the backward.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param options moonring.DivergenceOptions
---@return moonring.Tensor divergence_T [T], fp32 or fp64
function objectives.divergence(hidden_TD, head, targets_T, options) end

--- Computes the entropy -sum p log p of each row's next-token distribution, in nats, in chunks as
--- `divergence`.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none, returns 0
---@param options? moonring.EntropyOptions
---@return moonring.Tensor entropy_T [T]
function objectives.entropy(hidden_TD, head, targets_T, options) end

--- Computes logsumexp(logits)^2 of each row (z-loss), in chunks as `divergence`.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none, returns 0
---@param options? moonring.ChunkOptions
---@return moonring.Tensor z_loss_T [T]
function objectives.z_loss(hidden_TD, head, targets_T, options) end

--- Computes the most likely next ids of each row and their log-probs over the whole vocabulary, in
--- decreasing order: the reference's data for a later `divergence`. Not differentiable.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param top integer K
---@param options? moonring.EntropyOptions
---@return moonring.Tensor ids_TK int64 [T, K]; -1 where there is no target
---@return moonring.Tensor log_probs_TK [T, K]; -inf where there is no target
function objectives.top_log_probs(hidden_TD, head, targets_T, top, options) end

--- Computes logits of single rows, to inspect a model. Not differentiable: as a term of a loss it
--- contributes no gradient, and no error is raised. Use `log_prob` for losses.
---@param hidden_ND moonring.Tensor [N, D]
---@param head moonring.Head
---@param first_ids integer K: number of returned logits, for ids 0 .. K-1
---@param options? moonring.HeadOptions
---@return moonring.Tensor logits_NK [N, K]
---@return moonring.Tensor logsumexp_N [N], over the whole vocabulary
function objectives.logits(hidden_ND, head, first_ids, options) end

--- Sums each document's values over all its tokens, whichever sp ranks own them, for a
--- sequence-level objective. Differentiable; its backward communicates nothing. Collective over sp.
--- No parameter may be used after it in the graph.
---@param values_T moonring.Tensor [T_local] or [T_local, D], in the layout's order
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor sums fp64 [documents], or [documents, D]; the same on every sp rank
function objectives.document_sums(values_T, layout, mesh) end

--- Number of targets of each document. Not collective.
---@param sequence moonring.Sequence
---@return moonring.Tensor targets fp64 [documents]
function objectives.document_targets(sequence) end

--- Token weights for `ld_alpha` (LD-DPO): in a pair of answers with n and n' targets, the first
--- min(n, n') targets of each have weight 1 and the others ld_alpha. Covers the whole stream; use
--- `layout:cut` for a rank's share.
---@param sequence moonring.Sequence
---@param ld_alpha number from 0 to 1
---@return moonring.Tensor weights_T fp64 [T]
function objectives.desensitized(sequence, ld_alpha) end

---@class moonring.ScoreOptions
---@field dropout? number dropout rate on the last hidden state, 0 to less than 1; default 0
---@field seed? integer seed of the dropout, used with step and identity
---@field step? integer training step
---@field identity? moonring.Tensor int64 [T_local], a number for each of this rank's tokens;
---   required with dropout
--- ignored; accepted so that the noise options of `Model:forward` can be passed on
---@field neftune_alpha? number
---@field lengths? moonring.Tensor ignored

--- Computes a reward model's score of each document: the value head applied to its last token. The
--- head's gradient is added to its Parameters. Collective over sp.
---@param hidden_TD moonring.Tensor [T_local, D], in the layout's order
---@param weight moonring.Parameter [1, D]
---@param bias moonring.Parameter [1]
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param options? moonring.ScoreOptions
---@return moonring.Tensor scores fp64 [documents], the same on every sp rank
function objectives.document_scores(hidden_TD, weight, bias, layout, mesh, options) end

--- Reward model loss: minus the sum of log sigmoid(chosen - rejected) over pairs. Sequence level.
--- Divided by the number of pairs in the step.
---@param scores moonring.Tensor [2 x pairs]: chosen, rejected, chosen, rejected, ...
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, as a tensor with two elements on a
---   GPU: "accuracy"
function objectives.reward_loss(scores) end

---@class moonring.RouterWeightsOptions
---@field per_token integer number of experts that each token is routed to
---@field coefficient number factor of the loss

--- Weights of router probabilities in the load-balancing loss of Transformers, coefficient E sum_e
--- f_e P_e for each group of tokens: sum(weights * sums of probabilities), over micro-batches,
--- layers and ranks, is the loss of all groups.
---@param chosen moonring.Tensor [groups, experts]: number of times that each expert was chosen,
---   over all layers and ranks
---@param options moonring.RouterWeightsOptions
---@return moonring.Tensor weights fp64 [groups, experts]; 0 for a group without tokens
function objectives.router_weights(chosen, options) end

---@class moonring.Sft
local Sft = {}

--- The number that these documents add to the step's divisor; depends only on labels.
---@param labels_T moonring.Tensor int64 [T], unshifted, not cut over ranks
---@param lengths integer[] number of tokens of each document; they sum to T
---@return integer
function Sft:count(labels_T, lengths) end

---@class moonring.SftStatistics
--- int64 [T_local], from `objectives.log_prob`; adds the metric token_accuracy
---@field greedy? moonring.Tensor
---@field top_entropy? moonring.Tensor [T_local], from `objectives.log_prob`; required by eaft
---@field mean_logit? moonring.Tensor ignored
---@field entropy? moonring.Tensor ignored

--- This rank's sum of -log p: divide it by the step's count, then call `backward()`. The sum over
--- all ranks is that of the whole step.
---@param log_prob_T moonring.Tensor [T_local]
---@param targets_T moonring.Tensor int64 [T_local]
---@param statistics? moonring.SftStatistics
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, as a tensor with two elements on a
---   GPU: "nll", the unweighted sum and the number of targets; "token_accuracy"
function Sft:loss(log_prob_T, targets_T, statistics) end

function Sft:close() end

---@class moonring.Preference
local Preference = {}

--- Whether the loss needs log-probs of a reference model.
---@return boolean
function Preference:needs_reference() end

--- Whether `survey` must be called with the step's log-probs before its first backward.
---@return boolean
function Preference:needs_survey() end

--- Passes the whole step, the same on every rank, to compute what pairs in a group share: KL terms,
--- and BCO's running mean, which each call updates.
---@param policy moonring.Tensor [2 x pairs of the step], in the step's order: chosen, rejected, ...
---@param reference moonring.Tensor the same for the reference model
---@param targets moonring.Tensor number of targets of each document
---@param group integer number of pairs in a group
function Preference:survey(policy, reference, targets, group) end

---@class moonring.PreferenceBatch
--- [2 x pairs] sum of log-probs over each document: chosen, rejected, ...; differentiable
---@field policy moonring.Tensor
---@field reference? moonring.Tensor the same for the reference model, if required
---@field targets moonring.Tensor number of targets of each document
--- sums of the statistic mean_logit; adds the metrics logits/chosen and logits/rejected
---@field mean_logits? moonring.Tensor
---@field places? integer[] index of each pair in the step, if a survey is required

--- The sum of losses over the pairs of a micro-batch.
---@param batch moonring.PreferenceBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, as a tensor with two elements on a
---   GPU: rewards/chosen, rewards/accuracies, logps/chosen, ...
function Preference:loss(batch) end

--- The state for a checkpoint: BCO's running mean.
---@return string
function Preference:state() end

--- Restores a state and discards the last survey.
---@param text string
function Preference:load_state(text) end

function Preference:close() end

---@class moonring.Kto
local Kto = {}

--- Passes the mismatched documents of the whole step, the same on every rank, to compute the KL
--- term of each group.
---@param policy moonring.Tensor [examples of the step], in the step's order
---@param reference moonring.Tensor the same for the reference model
---@param group integer number of examples in a group
---@return table<string, number[]> metrics {sum, count} by name: "kl", over groups
function Kto:survey(policy, reference, group) end

---@class moonring.KtoBatch
---@field policy moonring.Tensor [examples] sum of log-probs over each document; differentiable
---@field reference moonring.Tensor the same for the reference model
---@field targets moonring.Tensor number of targets of each document
--- sums of the statistic mean_logit; adds the metrics logits/chosen and logits/rejected
---@field mean_logits? moonring.Tensor
---@field desirable boolean[] for each example
---@field places integer[] index of each example in the step

--- The sum of losses over the examples of a micro-batch.
---@param batch moonring.KtoBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, as a tensor with two elements on a
---   GPU: rewards/chosen, logps/chosen and logits/chosen over desirable answers, .../rejected over
---   the others
function Kto:loss(batch) end

function Kto:close() end

---@class moonring.PolicyGradient
local PolicyGradient = {}

--- Whether the loss needs a reference model's log-probs of tokens, that is beta > 0.
---@return boolean
function PolicyGradient:needs_reference() end

---@class moonring.PolicyCount
---@field targets moonring.Tensor number of targets of each document (Batch:document_targets)
--- for each document, false if the whole answer is masked; default: all count
---@field counted? boolean[]

--- The number that these documents add to the step's divisor: answers (grpo, rloo), answers x
--- max_completion_length (dr_grpo), counted tokens (dapo, bnpo). A document without targets is not
--- counted as an answer.
---@param batch moonring.PolicyCount
---@return integer
function PolicyGradient:count(batch) end

---@class moonring.PolicyBatch
---@field log_probs moonring.Tensor [T_local], of the policy; differentiable
--- [T_local], of the policy that sampled the answers; default: log_probs, detached
---@field old? moonring.Tensor
---@field reference? moonring.Tensor [T_local], of the reference model, if required
---@field targets moonring.Tensor int64 [T_local]; -100: not part of an answer
---@field advantages moonring.Tensor [documents]
---@field counted? boolean[] as in PolicyCount
--- [T_local], the statistic "entropy"; adds the metric entropy
---@field entropy? moonring.Tensor
--- bool [T_local]: tokens that contribute to the policy term; default all
---@field high_entropy? moonring.Tensor
--- [T_local] log-probs reported by the sampler; adds metrics of their difference from `old`
---@field sampled? moonring.Tensor

--- The sum of losses over the answers of a micro-batch. Collective over sp.
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param batch moonring.PolicyBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, any[]> metrics {sum, count} by name, as a tensor with two elements on a
---   GPU: kl, entropy, clip_ratio/low_mean, clip_ratio/high_mean, clip_ratio/region_mean,
---   sampling/logp_difference/mean; {value, count, "min"} or {value, count, "max"}:
---   clip_ratio/low_min, clip_ratio/high_max, sampling/logp_difference/max
function PolicyGradient:loss(layout, mesh, batch) end

function PolicyGradient:close() end

return objectives
