#!/usr/bin/env bash
# The paper's run on verl. DATA is the folder that `corpo-rl pairs to-verl` wrote.
#
#     recipes/paper-verl/run.sh data/verl                          one node of eight GPUs
#     recipes/paper-verl/run.sh data/verl trainer.nnodes=2         on the head of a Ray cluster of two such nodes
#
# Every further argument is an override of verl's.
set -euo pipefail
data=${1:?usage: run.sh DATA [OVERRIDE...]}
shift

# Estimator, loss (token sum, strictly on-policy, no KL), size (64 prompts x 8 rollouts = 512), model, generation, run.
exec python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=corpo \
    +algorithm.corpo_min_correct=0.2 \
    algorithm.use_kl_in_reward=False \
    reward.custom_reward_function.path=pkg://corpo_rl.training.verl_reward \
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.ppo_epochs=1 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    data.train_batch_size=64 \
    actor_rollout_ref.rollout.n=8 \
    data.max_prompt_length=2048 \
    data.max_response_length=14336 \
    data.filter_overlong_prompts=True \
    "data.train_files=$data/train.parquet" \
    "data.val_files=[$data/in_domain.parquet,$data/ood.parquet,$data/other_domain.parquet]" \
    actor_rollout_ref.model.path=Qwen/Qwen3-8B \
    actor_rollout_ref.model.use_remove_padding=True \
    actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.strategy=fsdp2 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    actor_rollout_ref.rollout.max_model_len=16384 \
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True \
    actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=16384 \
    actor_rollout_ref.rollout.val_kwargs.do_sample=True \
    actor_rollout_ref.rollout.val_kwargs.temperature=1.0 \
    actor_rollout_ref.rollout.val_kwargs.n=16 \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 \
    trainer.total_epochs=1 \
    trainer.save_freq=10 \
    trainer.test_freq=20 \
    trainer.resume_mode=auto \
    trainer.project_name=corpo \
    trainer.experiment_name=paper-verl \
    trainer.default_local_dir=runs/paper-verl \
    trainer.rollout_data_dir=runs/paper-verl/rollouts \
    "trainer.logger=[console]" \
    "$@"
