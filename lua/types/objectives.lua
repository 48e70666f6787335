---@meta moonring.native.objectives

--- Training objectives. An objective returns two values: a count, which is known before the first
--- forward, and sums of losses. The training loop divides the sums by the count of the whole step,
--- over all dp ranks.
---@class moonring.objectives
local objectives = {}

---@class moonring.SftOptions
---@field count? "labels" | "targets" what the loss is divided by: "labels", the number of labels
---   other than -100 before the shift, as in LLaMA-Factory; or "targets", their number after it;
---   default "labels"
---@field dft? boolean dynamic fine-tuning: whether a token's term is multiplied by the token's
---   probability (without gradient); default false
---@field eaft? boolean entropy-adaptive fine-tuning: whether a token's term is multiplied by
---   (top_entropy / 3) ^ eaft_alpha (without gradient); default false
---@field eaft_alpha? number 0 or more; default 1

--- Supervised fine-tuning: minus the sum of the targets' log-probs, or a weighted sum of them. Its
--- sums cover only this rank's tokens (a token-level objective).
---@param options? moonring.SftOptions
---@return moonring.Sft
function objectives.sft(options) end

---@class moonring.PreferenceOptions
---@field loss? string one of "sigmoid" (DPO), "hinge", "ipo", "kto_pair", "orpo", "simpo",
---   "nca_pair" or "robust"; default "sigmoid"
---@field beta? number greater than 0; default 0.1
---@field ftx? number factor of an additional loss, the negative log-likelihood per token of the
---   chosen answer; default 0
---@field simpo_gamma? number margin of simpo; default 0.5
---@field label_smoothing? number assumed fraction of pairs whose order is wrong, at most 0.5; for
---   the losses sigmoid and robust; default 0
---@field bco_weight? number factor of an additional BCO loss; default 0

--- DPO and related losses on pairs of answers. Its sums cover whole documents and are the same on
--- every sp rank (a sequence-level objective). The loss is divided by the number of pairs in the
--- step.
---@param options? moonring.PreferenceOptions
---@return moonring.Preference
function objectives.preference(options) end

---@class moonring.PreferenceLossFacts
---@field name string
---@field needs_reference boolean
---@field most_smoothing number largest label_smoothing; 0: the loss has none
---@field smoothing_below_most boolean whether label_smoothing must be less than most_smoothing and
---   not equal to it, because the formula divides by 1 - 2 label_smoothing

--- The losses that `preference` supports.
---@return moonring.PreferenceLossFacts[]
function objectives.preference_losses() end

---@class moonring.KtoOptions
---@field beta? number greater than 0; default 0.1
---@field chosen_weight? number weight of desirable answers; default 1
---@field rejected_weight? number weight of undesirable answers; default 1
---@field ftx? number factor of an additional loss, the negative log-likelihood per token of each
---   desirable answer; default 0

--- KTO on single answers, each desirable or not. Its sums cover whole documents and are the same on
--- every sp rank (a sequence-level objective). The loss is divided by the number of examples in the
--- step.
---@param options? moonring.KtoOptions
---@return moonring.Kto
function objectives.kto(options) end

---@class moonring.PolicyGradientOptions
---@field loss_type? string one of "grpo", "bnpo", "dapo", "dr_grpo" or "rloo"; default "dapo"
---@field beta? number factor of the KL term, 0 or more; default 0
---@field epsilon? number lower clipping range, 0 or more; default 0.2
---@field epsilon_high? number upper clipping range, 0 or more; default epsilon
---@field delta? number greater than 0, upper bound of a ratio; default none
---@field importance_sampling_level? "token" | "sequence" with "token": one probability ratio for
---   each token; "sequence": one ratio for a whole answer (GSPO); default "token"
---@field max_completion_length? integer most tokens of an answer; the loss dr_grpo divides by it

--- GRPO and related losses on answers with advantages. Its sums cover whole documents and are the
--- same on every sp rank (a sequence-level objective). The loss is divided by the sum of
--- PolicyGradient:count over the step.
---@param options? moonring.PolicyGradientOptions
---@return moonring.PolicyGradient
function objectives.policy_gradient(options) end

---@class moonring.PolicyLossFacts
---@field name string
---@field of_sequences boolean whether the loss uses one ratio for each answer, computed from summed
---   log-probs, and puts the KL term in the rewards; the options beta, delta,
---   importance_sampling_level and high_entropy are then not available

--- The losses that `policy_gradient` supports.
---@return moonring.PolicyLossFacts[]
function objectives.policy_losses() end

--- The entropy above which a token is among the fraction `share` of the step's tokens with the
--- highest entropy (key top_entropy_quantile). Computed as the quantile 1 - share over the tokens
--- of all ranks. Collective over all ranks.
---@param entropies moonring.Tensor [n], the entropies of this rank's counted tokens in the whole
---   step
---@param share number from 0 to 1
---@param mesh moonring.Mesh
---@return number threshold infinity if no rank has a token
function objectives.entropy_threshold(entropies, share, mesh) end

---@class moonring.HeadOptions
---@field dtype? moonring.Dtype dtype of the matrix product of the head; use `model:matmul_dtype()`.
---   Ignored for fp64 hidden states, whose product is in fp64; default "fp32"

---@class moonring.LogProbOptions: moonring.HeadOptions
---@field chunk_bytes? integer bytes of logits that are in memory at a time; default 64 MiB
---@field chunk_rows? integer least number of rows of logits that are computed at a time; 0 or
---   absent: 1 on the CPU, 4096 on a GPU
---@field label_smoothing? number a number e from 0 to less than 1: the result is (1 - e) log p[y_t]
---   + e mean(log p); default 0
---@field temperature? number greater than 0: logits are divided by it, after the head's scale and
---   softcap; applies to the statistics too; default 1
---@field weights? table<string, moonring.Tensor> as in Model:forward: log-probs by the head's
---   weight in this table, composed of PyTorch's operators, for second derivatives; all logits are
---   kept. Not with label_smoothing or statistics
---@field statistics? string[] values to return for each row in addition, from the same logits:
---   "mean_logit", the mean over the vocabulary; "greedy", the most likely id (-1 in a row without
---   a target); "top_entropy", the entropy of the 20 largest logits; "entropy", that of all logits

--- Computes log softmax(W h_t)[y_t] for each row t, in chunks of rows: neither the forward nor the
--- backward ever stores all logits [T, V]. Differentiable in hidden_TD; the gradient of the head is
--- added to its Parameter. Rows without a target are skipped and return 0. Cost for N targets: 2 N
--- V D flops in the forward, 6 N V D in the backward, and 64 MiB of logits at a time.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: the row has no target. Or [T, K], several
---   candidates of a row, whose log-probs come from the same logits; -100 or -1: no candidate
---@param options? moonring.LogProbOptions
---@return moonring.Tensor log_prob_T [T] or [T, K], fp32 or fp64
---@return table<string, moonring.Tensor>? statistics by name, [T] each, detached; nil if none was
---   requested
function objectives.log_prob(hidden_TD, head, targets_T, options) end

---@class moonring.ChunkOptions: moonring.HeadOptions
---@field chunk_bytes? integer bytes of logits in memory at a time; default 64 MiB
---@field chunk_rows? integer least number of rows of logits that are computed at a time; 0 or
---   absent: 1 on the CPU; on a GPU as many as use the memory of 4096 rows in log_prob
---@field vocabulary? integer restricts the vocabulary to the ids 0 .. vocabulary - 1, as if there
---   were no others; default: all ids

---@class moonring.EntropyOptions: moonring.ChunkOptions
---@field temperature? number greater than 0: logits are divided by it; default 1

---@class moonring.DivergenceOptions: moonring.EntropyOptions
---@field kind "forward" | "reverse" | "js" which divergence of a reference q and a policy p:
---   "forward" is KL(q || p), "reverse" is KL(p || q), "js" is beta KL(q || m) + (1 - beta) KL(p ||
---   m) with m = beta q + (1 - beta) p. The result is not multiplied by temperature^2
---@field beta? number for "js", between 0 and 1, exclusive; default 0.5
---@field reference_hidden? moonring.Tensor the reference's hidden states [T, D'], of any width D';
---   reference_head is required with it
---@field reference_head? moonring.Head its scale and softcap are applied
---@field reference_dtype? moonring.Dtype dtype of the matrix product of reference_head; default
---   "fp32"
---@field ids? moonring.Tensor replaces reference_hidden and reference_head: int64 [T, K], the
---   reference's K most likely ids of each token, distinct within a row
---@field log_probs? moonring.Tensor the log-probs of `ids`, [T, K], with the temperature already
---   applied; -inf: the reference's probability q is 0
---@field rest? "bucket" | "renormalize" | "zero" how ids that are not among the K are treated.
---   "bucket": together they form one more outcome with the remaining probability (for the
---   reference at least 2^-23, or 2^-52 for fp64 log-probs). "renormalize": both distributions are
---   restricted to the K ids and renormalized; log_probs may then have a constant offset. "zero":
---   only the reference is renormalized over the K ids; not possible with "reverse". Default
---   "bucket"

--- Computes the divergence between the next-token distributions of a policy and a reference over
--- the whole vocabulary, in chunks of rows: neither the forward nor the backward ever stores all
--- logits [T, V]. Differentiable in hidden_TD; the gradient of the head is added to its Parameter.
--- The reference gets no gradient. Rows without a target are skipped and return 0. Both
--- vocabularies must have the same size, or the option `vocabulary` must restrict both to the same
--- ids. Cost: that of log_prob, plus 2 N V D' flops each in the forward and in the backward.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: the row has no target
---@param options moonring.DivergenceOptions
---@return moonring.Tensor divergence_T [T], fp32 or fp64
function objectives.divergence(hidden_TD, head, targets_T, options) end

--- Computes the entropy -sum p log p of each row's next-token distribution, in nats. Logits are
--- computed in chunks of rows, as in `divergence`.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: the row has no target and returns 0
---@param options? moonring.EntropyOptions
---@return moonring.Tensor entropy_T [T]
function objectives.entropy(hidden_TD, head, targets_T, options) end

--- Computes logsumexp(logits)^2 of each row (z-loss). Logits are computed in chunks of rows, as in
--- `divergence`.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: the row has no target and returns 0
---@param options? moonring.ChunkOptions
---@return moonring.Tensor z_loss_T [T]
function objectives.z_loss(hidden_TD, head, targets_T, options) end

--- Computes the most likely next ids of each row and their log-probs over the whole vocabulary, in
--- decreasing order. A later `divergence` can use them as the reference (options ids and
--- log_probs). Not differentiable.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: the row has no target
---@param top integer K, the number of ids for each row
---@param options? moonring.EntropyOptions
---@return moonring.Tensor ids_TK int64 [T, K]; -1 where there is no target
---@return moonring.Tensor log_probs_TK [T, K]; -inf where there is no target
function objectives.top_log_probs(hidden_TD, head, targets_T, top, options) end

--- Computes the logits of single rows, to inspect a model. Not differentiable: in a loss they
--- contribute no gradient, and no error is raised. Use `log_prob` for losses.
---@param hidden_ND moonring.Tensor [N, D]
---@param head moonring.Head
---@param first_ids integer K: returns the logits of the ids 0 .. K-1
---@param options? moonring.HeadOptions
---@return moonring.Tensor logits_NK [N, K]
---@return moonring.Tensor logsumexp_N [N], over the whole vocabulary
function objectives.logits(hidden_ND, head, first_ids, options) end

--- Sums each document's values over all its tokens, also those on other sp ranks, for a
--- sequence-level objective. Differentiable; its backward does not communicate. Collective over the
--- sp group. No parameter may be used after this function in the graph.
---@param values_T moonring.Tensor [T_local] or [T_local, D], in the layout's order
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor sums fp64 [documents], or [documents, D]; the same on every sp rank
function objectives.document_sums(values_T, layout, mesh) end

--- Number of targets of each document. Not collective.
---@param sequence moonring.Sequence
---@return moonring.Tensor targets fp64 [documents]
function objectives.document_targets(sequence) end

--- Token weights for the key `ld_alpha` (LD-DPO): in a pair of answers with n and n' targets, the
--- first min(n, n') targets of each answer have weight 1 and the others weight ld_alpha. The result
--- covers the whole stream; `layout:cut` selects a rank's rows.
---@param sequence moonring.Sequence
---@param ld_alpha number from 0 to 1
---@return moonring.Tensor weights_T fp64 [T]
function objectives.desensitized(sequence, ld_alpha) end

---@class moonring.ScoreOptions
---@field dropout? number dropout rate on the head's input, from 0 to less than 1; default 0
---@field seed? integer seed of the dropout, which also depends on step and identity
---@field step? integer training step
---@field identity? moonring.Tensor int64 [T_local], a number for each of this rank's tokens, which
---   selects its dropout; required with dropout
---@field neftune_alpha? number ignored; it is accepted so that a script can pass the same noise
---   options as to `Model:forward`
---@field lengths? moonring.Tensor ignored

--- Computes a reward model's score of each document: the value head is applied to the document's
--- last token. The gradient of the head is added to its Parameters. Collective over the sp group.
---@param hidden_TD moonring.Tensor [T_local, D], in the layout's order
---@param weight moonring.Parameter [1, D]
---@param bias moonring.Parameter [1]
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param options? moonring.ScoreOptions
---@return moonring.Tensor scores fp64 [documents], the same on every sp rank
function objectives.document_scores(hidden_TD, weight, bias, layout, mesh, options) end

--- The loss of a reward model: minus the sum of log sigmoid(chosen - rejected) over the pairs. The
--- loss is divided by the number of pairs in the step.
---@param scores moonring.Tensor [2 x pairs], in the order chosen, rejected, chosen, rejected, ...
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics the metric "accuracy" as {sum, count}; on a GPU as a
---   tensor with these two elements
function objectives.reward_loss(scores) end

---@class moonring.RouterWeightsOptions
---@field per_token integer number of experts that each token is routed to
---@field coefficient number factor of the loss

--- Computes weights of router probabilities such that sum(weights * sums of probabilities), over
--- all micro-batches, layers and ranks, is the load-balancing loss of Transformers: for each group
--- of tokens coefficient E sum_e f_e P_e, with E experts, the fraction f_e of tokens routed to
--- expert e, and its mean probability P_e.
---@param chosen moonring.Tensor [groups, experts]: how many times each expert was chosen, over all
---   layers and ranks
---@param options moonring.RouterWeightsOptions
---@return moonring.Tensor weights fp64 [groups, experts]; 0 for a group without tokens
function objectives.router_weights(chosen, options) end

---@class moonring.Sft
local Sft = {}

--- The number that these documents add to the step's count, by which the loss is divided. It
--- depends only on labels.
---@param labels_T moonring.Tensor int64 [T], not shifted, of the whole stream
---@param lengths integer[] number of tokens of each document; the sum is T
---@return integer
function Sft:count(labels_T, lengths) end

---@class moonring.SftStatistics
---@field greedy? moonring.Tensor int64 [T_local], from `objectives.log_prob`; adds the metric
---   token_accuracy
---@field top_entropy? moonring.Tensor [T_local], from `objectives.log_prob`; required by eaft
---@field mean_logit? moonring.Tensor ignored
---@field entropy? moonring.Tensor ignored

--- This rank's sum of -log p. Divide the loss by the step's count, then call `backward()`. The
--- losses of all ranks add up to the loss of the whole step.
---@param log_prob_T moonring.Tensor [T_local]
---@param targets_T moonring.Tensor int64 [T_local]
---@param statistics? moonring.SftStatistics
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, on a GPU a tensor with these two
---   elements: "nll" (the sum without weights, and the number of targets), "token_accuracy"
function Sft:loss(log_prob_T, targets_T, statistics) end

function Sft:close() end

---@class moonring.Preference
local Preference = {}

--- Whether the loss needs log-probs of a reference model.
---@return boolean
function Preference:needs_reference() end

--- Whether `survey` must be called, with the log-probs of the whole step, before the step's first
--- backward.
---@return boolean
function Preference:needs_survey() end

--- Receives the log-probs of the whole step, which are the same on every rank, and computes the
--- values that pairs in a group share: KL terms, and the running mean of BCO, which each call
--- updates.
---@param policy moonring.Tensor [2 x pairs of the step], in the step's order: chosen, rejected, ...
---@param reference moonring.Tensor the same values of the reference model
---@param targets moonring.Tensor number of targets of each document
---@param group integer number of pairs in a group
function Preference:survey(policy, reference, targets, group) end

---@class moonring.PreferenceBatch
---@field policy moonring.Tensor [2 x pairs] sum of the log-probs of each document, in the order
---   chosen, rejected, ...; differentiable
---@field reference? moonring.Tensor the same values of the reference model, if needs_reference()
---@field targets moonring.Tensor number of targets of each document
---@field mean_logits? moonring.Tensor sum of the statistic mean_logit of each document; if given,
---   logits/chosen and logits/rejected are among the metrics
---@field places? integer[] index of each pair in the step, if needs_survey()

--- The sum of losses over the pairs of a micro-batch.
---@param batch moonring.PreferenceBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, on a GPU a tensor with these two
---   elements: rewards/chosen, rewards/accuracies, logps/chosen, ...
function Preference:loss(batch) end

--- The state to store in a checkpoint: the running mean of BCO.
---@return string
function Preference:state() end

--- Restores a value of state(), and discards what the last survey computed.
---@param text string
function Preference:load_state(text) end

function Preference:close() end

---@class moonring.Kto
local Kto = {}

--- Computes the KL term of each group, from log-probs of documents that combine the prompt of an
--- example with the answer of another one. The log-probs must be the same on every rank.
---@param policy moonring.Tensor [examples of the step], in the step's order: for each example the
---   sum of the log-probs of the document with its prompt
---@param reference moonring.Tensor the same values of the reference model
---@param group integer number of examples in a group
---@return table<string, number[]> metrics "kl" as {sum, count}, over the groups
function Kto:survey(policy, reference, group) end

---@class moonring.KtoBatch
---@field policy moonring.Tensor [examples] sum of the log-probs of each document; differentiable
---@field reference moonring.Tensor the same values of the reference model
---@field targets moonring.Tensor number of targets of each document
---@field mean_logits? moonring.Tensor sum of the statistic mean_logit of each document; if given,
---   logits/chosen and logits/rejected are among the metrics
---@field desirable boolean[] whether the answer of each example is desirable
---@field places integer[] index of each example in the step

--- The sum of losses over the examples of a micro-batch.
---@param batch moonring.KtoBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics {sum, count} by name, on a GPU a tensor with these two
---   elements: rewards/chosen, logps/chosen and logits/chosen over desirable answers, .../rejected
---   over the others
function Kto:loss(batch) end

function Kto:close() end

---@class moonring.PolicyGradient
local PolicyGradient = {}

--- Whether the loss needs a reference model's log-probs of tokens, which is the case if beta > 0.
---@return boolean
function PolicyGradient:needs_reference() end

---@class moonring.PolicyCount
---@field targets moonring.Tensor number of targets of each document (Batch:document_targets)
---@field counted? boolean[] for each document false if the whole answer is excluded from the loss;
---   default: no answer is excluded

--- The number that these documents add to the step's count, by which the loss is divided: the
--- number of answers (grpo, rloo), answers x max_completion_length (dr_grpo), or the number of
--- counted tokens (dapo, bnpo). A document without targets is not an answer.
---@param batch moonring.PolicyCount
---@return integer
function PolicyGradient:count(batch) end

---@class moonring.PolicyBatch
---@field log_probs moonring.Tensor [T_local], log-probs of the policy; differentiable
---@field old? moonring.Tensor [T_local], log-probs of the policy at the time when it sampled the
---   answers; default: log_probs, detached
---@field reference? moonring.Tensor [T_local], log-probs of the reference model, if
---   needs_reference()
---@field targets moonring.Tensor int64 [T_local]; -100: the token is not part of an answer
---@field advantages moonring.Tensor [documents], the advantage of each answer
---@field counted? boolean[] as in PolicyCount
---@field entropy? moonring.Tensor [T_local], the statistic "entropy" of log_prob; if given, entropy
---   is among the metrics
---@field high_entropy? moonring.Tensor bool [T_local]: the tokens that contribute to the policy
---   term; default: all tokens
---@field sampled? moonring.Tensor [T_local] log-probs that the sampler reported; if given, their
---   difference from `old` is among the metrics

--- The sum of losses over the answers of a micro-batch. Collective over the sp group.
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param batch moonring.PolicyBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, any[]> metrics {sum, count} by name, on a GPU a tensor with these two
---   elements: kl, entropy, clip_ratio/low_mean, clip_ratio/high_mean, clip_ratio/region_mean,
---   sampling/logp_difference/mean; or {value, count, "min"} and {value, count, "max"}:
---   clip_ratio/low_min, clip_ratio/high_max, sampling/logp_difference/max
function PolicyGradient:loss(layout, mesh, batch) end

function PolicyGradient:close() end

return objectives
