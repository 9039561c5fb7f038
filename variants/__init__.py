"""Ideas after *Attention Is All You Need*, one per file.

Each file replaces one part of the Transformer of `implementation.py`, or of an earlier file:

  day  file                 instead of                      there is                        paper
  23   gpt.py               encoder and decoder, post-norm  a pre-norm decoder alone        Radford 2019
  24   sampling.py          beam search                     sampling from likely tokens     Holtzman 2019
  25   kv_cache.py          keys and values recomputed      a key/value cache               Shazeer 2019
  26   bert.py              next-token prediction           masked-token prediction         Devlin 2018
  27   t5.py                sines added to embeddings       a learned bias per distance     Raffel 2019
  28   norms.py             LayerNorm                       RMSNorm                         Zhang 2019
                                                            GroupNorm                       Wu 2018
  28   activations.py       max(0, x)                       GELU                            Hendrycks 2016
                                                            Mish                            Misra 2019
                                                            SwiGLU                          Shazeer 2020
  29   rope.py              sines added to embeddings       queries and keys rotated        Su 2021
  30   alibi.py             sines added to embeddings       scores reduced by distance      Press 2021
  31   grouped_query.py     key/value heads for each query  key/value heads per group       Ainslie 2023
  32   llama.py             the parts of GPT                those of days 28, 29 and 31     Touvron 2023
  33   flash.py             a T × T attention matrix        tiles, and a running softmax    Dao 2022
  34   linear.py            the softmax                     a product of feature maps       Katharopoulos 2020
  34   sliding_window.py    every key                       the nearest keys                Beltagy 2020
  35   moe.py               one feed-forward network        a few of many, chosen per token Fedus 2021
                                                                                            Jiang 2024
  36   parallel_block.py    attention, then feed-forward    both in parallel                Wang 2021
  36   depths.py            every token in every layer      some tokens skip a layer        Raposo 2024
  37   mamba.py             attention                       a state that selects its input  Gu 2023
  38   efficient.py         activations stored, in float32  recomputed                      Chen 2016
                                                            in half precision, loss scaled  Micikevicius 2017
  39   parallelism.py       one process with everything     gradients averaged in a ring    Patarasuk 2009
                                                            parameters in shards            Rajbhandari 2019
  40   shipping.py          weights in float32              weights in int8                 Wu 2020
  41   optimizers.py        L2 regularization               decoupled weight decay          Loshchilov 2017
                            a step for each number          a step for each matrix          Jordan 2024
  42   speculative.py       a pass for each token           a pass for several proposals    Leviathan 2023
  43   latent.py            one key and value per head      projections of one latent       DeepSeek-AI 2024
  44   delta.py             a state that is a sum           a state that is corrected       Schlag 2021
  45   instruction.py       a loss on every token           a loss on the answers           Ouyang 2022
  46   lora.py              updates of whole matrices       products of thin matrices       Hu 2021
  47   dpo.py               one right answer                the better one of two answers   Rafailov 2023
  48   grpo.py              answers to learn from           answers sampled, and a reward    Shao 2024
  49   test_time_compute.py one sample, answered at once    steps written down, several     Wei 2022
                                                            samples and a vote              Wang 2023
  50   interpretability.py  the final prediction alone      a prediction after each layer   Olsson 2022

Without a day: `rope_scaling.py` (angles for longer texts), `train_gpt.py` (a training loop in one file),
`flash_triton.py` (a fast kernel), `hugging_face.py` (published weights), `memory.py`
(formulas for memory), `onnx_export.py` (files that run without this code).
"""
