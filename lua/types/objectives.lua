---@meta moonring.native.objectives

--- What a step counts and sums. An objective gives a count, known before the first forward, and
--- sums; the loop divides, once, by the count of the whole step over all dp ranks.
---@class moonring.objectives
local objectives = {}

---@class moonring.SftOptions
--- labels that are not -100 before the shift, as LLaMA-Factory divides, or predictions; "labels"
--- where absent
---@field count? "labels" | "targets"
---@field dft? boolean a token's term times its probability, outside the graph (dynamic fine-tuning)
--- times (top_entropy / 3) ^ eaft_alpha, outside the graph (entropy-adaptive fine-tuning)
---@field eaft? boolean
---@field eaft_alpha? number 0 or more; 1 where absent

--- Supervised fine-tuning: -sum of the targets' log-probs, or a weighted one. Token level: its sums
--- are this rank's share.
---@param options? moonring.SftOptions
---@return moonring.Sft
function objectives.sft(options) end

---@class moonring.PreferenceOptions
--- "sigmoid" (DPO), "hinge", "ipo", "kto_pair", "orpo", "simpo", "nca_pair" or "robust"; "sigmoid"
--- where absent
---@field loss? string
---@field beta? number more than 0; 0.1 where absent
---@field ftx? number times the nll per token of the chosen answer, added; 0 where absent
---@field simpo_gamma? number the margin of simpo; 0.5 where absent
--- the share of pairs taken to be in the wrong order, up to 0.5; for sigmoid and robust; 0 where
--- absent
---@field label_smoothing? number
---@field bco_weight? number of the BCO loss beside this one; 0 where absent

--- DPO and its kin on pairs of answers. Sequence level: its sums are the same on every sp rank.
--- Divided by the step's pairs.
---@param options? moonring.PreferenceOptions
---@return moonring.Preference
function objectives.preference(options) end

---@class moonring.PreferenceLossFacts
---@field name string
---@field needs_reference boolean
---@field most_smoothing number the most that label_smoothing may be; 0: the loss has none
--- label_smoothing must stay below most_smoothing: the formula divides by 1 - 2 x it
---@field smoothing_below_most boolean

--- The losses that `preference` knows.
---@return moonring.PreferenceLossFacts[]
function objectives.preference_losses() end

---@class moonring.KtoOptions
---@field beta? number more than 0; 0.1 where absent
---@field chosen_weight? number of the desirable answers; 1 where absent
---@field rejected_weight? number of the others; 1 where absent
---@field ftx? number times the nll per token of each desirable answer, added; 0 where absent

--- KTO on single answers, desirable or not. Sequence level. Divided by the step's examples.
---@param options? moonring.KtoOptions
---@return moonring.Kto
function objectives.kto(options) end

---@class moonring.PolicyGradientOptions
--- "grpo", "bnpo", "dapo", "dr_grpo" or "rloo"; "dapo" where absent
---@field loss_type? string
---@field beta? number times the KL term, 0 or more; 0 where absent
---@field epsilon? number 0 or more; 0.2 where absent
---@field epsilon_high? number 0 or more; epsilon where absent
---@field delta? number more than 0, the most that a ratio may be; no bound where absent
--- whether a ratio is of a token, or one of all tokens of an answer (GSPO); "token" where absent
---@field importance_sampling_level? "token" | "sequence"
---@field max_completion_length? integer tokens; dr_grpo divides by it

--- GRPO and its kin on answers with advantages. Sequence level: its sums are the same on every
--- sp rank. Divided by what `count` gives.
---@param options? moonring.PolicyGradientOptions
---@return moonring.PolicyGradient
function objectives.policy_gradient(options) end

---@class moonring.PolicyLossFacts
---@field name string
--- one ratio an answer, of sums of log-probs, its KL term in the rewards: no beta, delta,
--- importance_sampling_level or high_entropy
---@field of_sequences boolean

--- The losses that `policy_gradient` knows.
---@return moonring.PolicyLossFacts[]
function objectives.policy_losses() end

--- The entropy from which a token is one of the `share` of a step's tokens that have the most
--- (top_entropy_quantile): the quantile 1 - share over all ranks' tokens. Collective over all
--- ranks.
---@param entropies moonring.Tensor [n] of this rank's tokens that count, in the whole step
---@param share number 0 to 1
---@param mesh moonring.Mesh
---@return number threshold infinity where no rank has a token
function objectives.entropy_threshold(entropies, share, mesh) end

---@class moonring.HeadOptions
--- of the head's product, `model:matmul_dtype()`; fp64 hidden states always take fp64; "fp32" where
--- absent
---@field dtype? moonring.Dtype

---@class moonring.LogProbOptions: moonring.HeadOptions
---@field chunk_bytes? integer of logits made at a time; 64 MiB where absent
---@field chunk_rows? integer but so many at least; 0, or absent: one on the CPU, 4096 on a GPU
--- e, 0 to less than 1: (1 - e) log p[y_t] + e mean(log p) instead; 0 where absent
---@field label_smoothing? number
--- more than 0, that logits are divided by, after scale and softcap, here and for statistics; 1
--- where absent
---@field temperature? number
--- of each row, from the same logits: "mean_logit" over the vocabulary, "greedy" the likeliest id
--- (-1 without a target), "top_entropy" of the 20 greatest logits, "entropy" of all of them
---@field statistics? string[]

--- log softmax(W h_t)[y_t] of each row, in chunks of rows: [T, V] never exists, forward or
--- backward. Differentiable in hidden_TD; the head's gradient is added to its Parameter. Rows
--- without a target are not projected and give 0. Cost: 2 N V D flops forward and 6 N V D backward
--- for N targets; 64 MiB of logits at a time.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param options? moonring.LogProbOptions
---@return moonring.Tensor log_prob_T [T] in fp32, or fp64
---@return table<string, moonring.Tensor>? statistics by name, [T] each, outside the graph; nil
---   where none was asked for
function objectives.log_prob(hidden_TD, head, targets_T, options) end

---@class moonring.ChunkOptions: moonring.HeadOptions
---@field chunk_bytes? integer of logits held at a time; 64 MiB where absent
---@field chunk_rows? integer but so many at least; 0, or absent: one on the CPU, on a GPU those
---   whose logits take what 4096 rows of log_prob's do
--- the ids 0 .. vocabulary - 1 alone, as if there were no more; all where absent
---@field vocabulary? integer

---@class moonring.EntropyOptions: moonring.ChunkOptions
---@field temperature? number more than 0, that logits are divided by; 1 where absent

---@class moonring.DivergenceOptions: moonring.EntropyOptions
--- KL(q || p) of the reference q and the policy p; KL(p || q); or beta KL(q || m) + (1 - beta)
--- KL(p || m) with m = beta q + (1 - beta) p. None is multiplied by temperature^2
---@field kind "forward" | "reverse" | "js"
---@field beta? number of js, more than 0 and less than 1; 0.5 where absent
--- [T, D'] of the reference, of whatever width; with reference_head
---@field reference_hidden? moonring.Tensor
---@field reference_head? moonring.Head its scale and softcap are applied
---@field reference_dtype? moonring.Dtype of its product; "fp32" where absent
--- int64 [T, K] in place of these two: the reference's top ids of each token, distinct in a row
---@field ids? moonring.Tensor
--- [T, K] their log-probs at the temperature, which is not applied to them; -inf: q is 0 there
---@field log_probs? moonring.Tensor
--- of ids that are not among the K. "bucket": they are one more outcome, with what mass is left (of
--- the reference at least 2^-23, or 2^-52 for fp64 log-probs). "renormalize": both distributions
--- are over the K ids alone, and log_probs may be off by a constant. "zero": the reference gives
--- them nothing, its K are renormalised, the policy's are not; not with reverse. "bucket" where
--- absent
---@field rest? "bucket" | "renormalize" | "zero"

--- How far the policy's next-token distribution is from a reference's over the whole vocabulary, in
--- chunks of rows: [T, V] never exists, forward or backward. Differentiable in hidden_TD; the
--- head's gradient is added to its Parameter. The reference is not differentiated. Rows without a
--- target are not projected and give 0. Both vocabularies must be of one size, or `vocabulary` says
--- which ids count. Cost: that of log_prob, and 2 N V D' flops forward and again backward.
---@param hidden_TD moonring.Tensor [T, D]; fp32, bf16, fp16 or fp64
---@param head moonring.Head `model:head()`; its scale and softcap are applied
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param options moonring.DivergenceOptions
---@return moonring.Tensor divergence_T [T] in fp32, or fp64
function objectives.divergence(hidden_TD, head, targets_T, options) end

--- -sum p log p of each row's next-token distribution, in nats, as `divergence` makes it.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none, which gives 0
---@param options? moonring.EntropyOptions
---@return moonring.Tensor entropy_T [T]
function objectives.entropy(hidden_TD, head, targets_T, options) end

--- logsumexp(logits)^2 of each row (z-loss), as `divergence` makes it.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none, which gives 0
---@param options? moonring.ChunkOptions
---@return moonring.Tensor z_loss_T [T]
function objectives.z_loss(hidden_TD, head, targets_T, options) end

--- The likeliest next ids of each row and their log-probs over the whole vocabulary, the likeliest
--- first: what is kept of a reference for a later `divergence`. Not differentiable.
---@param hidden_TD moonring.Tensor [T, D]
---@param head moonring.Head
---@param targets_T moonring.Tensor int64 [T]; -100: none
---@param top integer K
---@param options? moonring.EntropyOptions
---@return moonring.Tensor ids_TK int64 [T, K]; -1 where there is no target
---@return moonring.Tensor log_probs_TK [T, K]; -inf where there is no target
function objectives.top_log_probs(hidden_TD, head, targets_T, top, options) end

--- What the head says at some rows, to look at a model. Not differentiable: a term of a loss that
--- is made of it teaches nothing, and beside a term with a gradient nothing says so. `log_prob` is
--- what a loss is made of.
---@param hidden_ND moonring.Tensor [N, D]
---@param head moonring.Head
---@param first_ids integer K: logits of ids 0 .. K-1
---@param options? moonring.HeadOptions
---@return moonring.Tensor logits_NK [N, K]
---@return moonring.Tensor logsumexp_N [N], over the whole vocabulary
function objectives.logits(hidden_ND, head, first_ids, options) end

--- The sum of each document's values over all its tokens, on whatever sp rank: what a
--- sequence-level objective is made from. Differentiable; its backward communicates nothing.
--- Collective over sp. No parameter may be used after it.
---@param values_T moonring.Tensor [T_local], or [T_local, D] of vectors, in the layout's order
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@return moonring.Tensor sums fp64 [documents], or [documents, D]; the same on every sp rank
function objectives.document_sums(values_T, layout, mesh) end

--- How many predictions each document has. Nothing is communicated.
---@param sequence moonring.Sequence
---@return moonring.Tensor targets fp64 [documents]
function objectives.document_targets(sequence) end

--- Weights of tokens for `ld_alpha` (LD-DPO): of a pair's two answers, chosen and rejected in turn,
--- the first min(n, n') predictions weigh 1 and those after ld_alpha. Of the whole stream:
--- `layout:cut` it.
---@param sequence moonring.Sequence
---@param ld_alpha number 0 to 1
---@return moonring.Tensor weights_T fp64 [T]
function objectives.desensitized(sequence, ld_alpha) end

---@class moonring.ScoreOptions
---@field dropout? number of the last hidden state, 0 to less than 1; 0 where absent
---@field seed? integer what the dropout's numbers are made from, with step and identity
---@field step? integer of the training
---@field identity? moonring.Tensor int64 [T_local], of this rank's tokens; needed with dropout
--- no use here: so that what `Model:forward` takes as noise may be passed on
---@field neftune_alpha? number
---@field lengths? moonring.Tensor no use here either

--- A reward model's score of each document: the value head's of its last token, summed over sp. The
--- head's gradient is added to its Parameters. Collective over sp.
---@param hidden_TD moonring.Tensor [T_local, D], in the layout's order
---@param weight moonring.Parameter [1, D]
---@param bias moonring.Parameter [1]
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param options? moonring.ScoreOptions
---@return moonring.Tensor scores fp64 [documents], the same on every sp rank
function objectives.document_scores(hidden_TD, weight, bias, layout, mesh, options) end

--- -sum of log sigmoid(chosen - rejected) over pairs. Sequence level. Divided by the step's pairs.
---@param scores moonring.Tensor [2 x pairs]: chosen, rejected, chosen, rejected, ...
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics by name {sum, count}, a tensor of the two where they are
---   on a GPU: "accuracy"
function objectives.reward_loss(scores) end

---@class moonring.RouterWeightsOptions
---@field per_token integer experts that a token goes through
---@field coefficient number of the loss

--- What each router probability counts in the load-balancing loss of a group of tokens, coefficient
--- E sum_e f_e P_e, as Transformers has it: sum(weights * sums of probabilities), over
--- micro-batches, layers and ranks, is the loss of all groups.
---@param chosen moonring.Tensor [groups, experts]: how often each expert was chosen, over all
---   layers and ranks
---@param options moonring.RouterWeightsOptions
---@return moonring.Tensor weights fp64 [groups, experts]; 0 for a group without tokens
function objectives.router_weights(chosen, options) end

---@class moonring.Sft
local Sft = {}

--- What these documents add to the step's divisor. Labels alone decide it.
---@param labels_T moonring.Tensor int64 [T], unshifted, uncut
---@param lengths integer[] tokens of each document; they sum to T
---@return integer
function Sft:count(labels_T, lengths) end

---@class moonring.SftStatistics
--- int64 [T_local], of `objectives.log_prob`: gives the metric token_accuracy
---@field greedy? moonring.Tensor
---@field top_entropy? moonring.Tensor [T_local], of `objectives.log_prob`: eaft wants it
---@field mean_logit? moonring.Tensor no use here
---@field entropy? moonring.Tensor no use here

--- This rank's sum of -log p: divide by the step's count, then `backward()`. Sums over dp x sp are
--- the whole step's.
---@param log_prob_T moonring.Tensor [T_local]
---@param targets_T moonring.Tensor int64 [T_local]
---@param statistics? moonring.SftStatistics
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics by name {sum, count}, a tensor of the two where they are
---   on a GPU: "nll", the sum without weights and how many targets; "token_accuracy"
function Sft:loss(log_prob_T, targets_T, statistics) end

function Sft:close() end

---@class moonring.Preference
local Preference = {}

--- Whether it compares with a reference model.
---@return boolean
function Preference:needs_reference() end

--- Whether the step's log-probs must be shown to `survey` before its first backward.
---@return boolean
function Preference:needs_survey() end

--- Sees the whole step, the same on every rank, for what the pairs of a group share: KL terms, and
--- BCO's running mean, which a survey moves on.
---@param policy moonring.Tensor [2 x pairs of the step], in the step's order: chosen, rejected, ...
---@param reference moonring.Tensor the same of the reference model
---@param targets moonring.Tensor predictions of each document
---@param group integer pairs of a group
function Preference:survey(policy, reference, targets, group) end

---@class moonring.PreferenceBatch
--- [2 x pairs] sums of log-probs over each document: chosen, rejected, ...; differentiable
---@field policy moonring.Tensor
---@field reference? moonring.Tensor the same of the reference model, where it is needed
---@field targets moonring.Tensor predictions of each document
--- sums of the statistic mean_logit; gives the metrics logits/chosen and logits/rejected
---@field mean_logits? moonring.Tensor
---@field places? integer[] of the pairs in the step, where a survey is needed

--- The sum over the pairs of a micro-batch.
---@param batch moonring.PreferenceBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics by name {sum, count}, a tensor of the two where they are
---   on a GPU: rewards/chosen, rewards/accuracies, logps/chosen, ...
function Preference:loss(batch) end

--- What a checkpoint keeps: BCO's running mean.
---@return string
function Preference:state() end

--- Goes on from a state; the last survey is forgotten.
---@param text string
function Preference:load_state(text) end

function Preference:close() end

---@class moonring.Kto
local Kto = {}

--- Sees the mismatched documents of the whole step, the same on every rank, for the KL term of each
--- group.
---@param policy moonring.Tensor [examples of the step], in the step's order
---@param reference moonring.Tensor the same of the reference model
---@param group integer examples of a group
---@return table<string, number[]> metrics by name {sum, count}: "kl", over groups
function Kto:survey(policy, reference, group) end

---@class moonring.KtoBatch
---@field policy moonring.Tensor [examples] sums of log-probs over each document; differentiable
---@field reference moonring.Tensor the same of the reference model
---@field targets moonring.Tensor predictions of each document
--- sums of the statistic mean_logit; gives the metrics logits/chosen and logits/rejected
---@field mean_logits? moonring.Tensor
---@field desirable boolean[] of the examples
---@field places integer[] of the examples in the step

--- The sum over the examples of a micro-batch.
---@param batch moonring.KtoBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, number[]> metrics by name {sum, count}, a tensor of the two where they are
---   on a GPU: rewards/chosen, logps/chosen, logits/chosen over the desirable, .../rejected over
---   the others
function Kto:loss(batch) end

function Kto:close() end

---@class moonring.PolicyGradient
local PolicyGradient = {}

--- Whether it compares with a reference model's log-probs of tokens: beta is above 0.
---@return boolean
function PolicyGradient:needs_reference() end

---@class moonring.PolicyCount
---@field targets moonring.Tensor predictions of each document (Batch:document_targets)
--- by document, false where the whole answer is masked; all count where absent
---@field counted? boolean[]

--- What these documents add to the step's divisor: answers (grpo, rloo), answers x
--- max_completion_length (dr_grpo), tokens that count (dapo, bnpo). A document without predictions
--- is no answer.
---@param batch moonring.PolicyCount
---@return integer
function PolicyGradient:count(batch) end

---@class moonring.PolicyBatch
---@field log_probs moonring.Tensor [T_local] of the policy; differentiable
--- [T_local] of the policy that sampled; log_probs outside the graph where absent
---@field old? moonring.Tensor
---@field reference? moonring.Tensor [T_local] of the reference model, where it is needed
---@field targets moonring.Tensor int64 [T_local]; -100: not of an answer
---@field advantages moonring.Tensor [documents]
---@field counted? boolean[] as PolicyCount's
--- [T_local], the statistic of that name: gives the metric entropy
---@field entropy? moonring.Tensor
--- bool [T_local]: which tokens the policy's term is made of; all where absent
---@field high_entropy? moonring.Tensor
--- [T_local] log-probs that the sampler gave: gives the metrics of how far they are from `old`
---@field sampled? moonring.Tensor

--- The sum over the answers of a micro-batch. Collective over sp.
---@param layout moonring.Layout
---@param mesh moonring.Mesh
---@param batch moonring.PolicyBatch
---@return moonring.Tensor loss of shape [], fp64
---@return table<string, any[]> metrics by name {sum, count}, a tensor of the two where they are on
---   a GPU: kl, entropy, clip_ratio/low_mean, clip_ratio/high_mean, clip_ratio/region_mean,
---   sampling/logp_difference/mean; {value, count, "min"} or "max": clip_ratio/low_min,
---   clip_ratio/high_max, sampling/logp_difference/max
function PolicyGradient:loss(layout, mesh, batch) end

function PolicyGradient:close() end

return objectives
