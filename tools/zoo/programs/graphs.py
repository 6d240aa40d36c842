"""Networks on graphs and atoms, and images."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


@program("jraph", sample=True)
def jraph_graph_network() -> Built:
    """Graph attention and a full graph network on a padded batch of graphs."""
    import jraph

    def graph(nodes, edges, seed):
        rng = np.random.default_rng(seed)
        return jraph.GraphsTuple(
            nodes=rng.normal(size=(nodes, 4)).astype(np.float32),
            edges=rng.normal(size=(edges, 3)).astype(np.float32),
            senders=rng.integers(0, nodes, edges).astype(np.int32),
            receivers=rng.integers(0, nodes, edges).astype(np.int32),
            n_node=np.asarray([nodes], np.int32),
            n_edge=np.asarray([edges], np.int32),
            globals=np.zeros((1, 2), np.float32),
        )

    batch = jraph.pad_with_graphs(jraph.batch_np([graph(5, 8, 0), graph(3, 4, 1)]), 12, 16, 3)
    batch = jax.tree.map(jnp.asarray, batch)
    params = {"e": normal(13, 3), "n": normal(12, 4), "g": normal(9, 2), "q": normal(4, 4)}

    def apply(params, batch):
        attention = jraph.GAT(
            lambda nodes: nodes @ params["q"],
            lambda sent, received, edges: jnp.sum(sent * received, -1, keepdims=True),
            jax.nn.relu,
        )
        network = jraph.GraphNetwork(
            lambda e, s, r, g: jnp.tanh(jnp.concatenate([e, s, r, g], -1) @ params["e"]),
            lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r, g], -1) @ params["n"]),
            lambda n, e, g: jnp.concatenate([n, e, g], -1) @ params["g"],
        )
        attended = attention(batch._replace(edges=None))
        return network(batch)._replace(senders=None, receivers=None), attended.nodes

    return apply, (params, batch)


@program("e3nn-jax", sample=True)
def e3nn_tensor_product() -> Built:
    """Spherical harmonics and their tensor products, with the gradient by the points."""
    import e3nn_jax as e3nn

    def energy(x):
        y = e3nn.spherical_harmonics("0e + 1o + 2e", e3nn.IrrepsArray("1o", x), False)
        z = e3nn.tensor_product(y, y, filter_ir_out=["0e", "1o", "2e"])
        return jnp.sum(e3nn.norm(z).array), z.array

    return jax.value_and_grad(energy, has_aux=True), (normal(8, 3),)


@program("e3x")
def e3x_message_passing() -> Built:
    """E3x: equivariant message passing and a tensor dense layer on a few atoms."""
    import e3x
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, positions, numbers, receivers, senders):
            x = e3x.nn.Embed(10, 8)(numbers)
            r = positions[senders] - positions[receivers]
            basis = e3x.nn.basis(r, num=6, max_degree=2, radial_fn=e3x.nn.reciprocal_bernstein)
            y = e3x.nn.MessagePass()(x, basis, dst_idx=receivers, src_idx=senders)
            return e3x.nn.TensorDense(4)(e3x.nn.silu(e3x.nn.Dense(8)(y)))

    receivers, senders = (jnp.asarray(x) for x in e3x.ops.sparse_pairwise_indices(4))
    args = (normal(4, 3), jnp.asarray([1, 6, 8, 1]), receivers, senders)
    model = Network()
    return model.apply, (model.init(jax.random.PRNGKey(0), *args), *args)


@program("dm-pix", needs=("flax",))
def dm_pix_super_resolution() -> Built:
    """PIX: a sub-pixel convolutional network (ESPCN) that doubles the size of images."""
    import dm_pix as pix
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.tanh(nn.Conv(16, (5, 5))(x))
            x = nn.tanh(nn.Conv(8, (3, 3))(x))
            return pix.depth_to_space(nn.Conv(12, (3, 3))(x), 2)

    model, x = Network(), normal(2, 12, 12, 3)
    return model.apply, (model.init(jax.random.PRNGKey(0), x), x)


@program("dm-pix", sample=True)
def dm_pix_augment() -> Built:
    """PIX: colours, blurs, rotations, flips and structural similarity."""
    import dm_pix as pix

    def augment(image, other):
        x = pix.adjust_brightness(pix.adjust_hue(image, 0.1), 0.05)
        x = pix.gaussian_blur(pix.adjust_saturation(x, 1.3), 1.0, 5)
        x = pix.rotate(pix.flip_left_right(x), 0.3, order=1, mode="constant")
        return (
            pix.rgb_to_hsv(jnp.clip(x, 0, 1)),
            pix.ssim(image, (image + other) / 2),
            pix.psnr(image, other),
        )

    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.uniform(size=(2, 24, 24, 3)), jnp.float32)
    return augment, (images[0], images[1])


@program("jraph")
def jraph_walks() -> Built:
    """Walks of four steps between 200 nodes of a graph, counted."""
    import jraph

    rng = np.random.default_rng(0)
    senders, receivers = (jnp.asarray(rng.integers(0, 200, 2000), jnp.int32) for _ in range(2))

    def walks(senders, receivers):
        ones = jnp.ones_like(senders)
        edges = jraph.segment_sum(ones, senders * 200 + receivers, 200 * 200).reshape(200, 200)
        pairs = edges @ edges
        return pairs @ pairs

    return walks, (senders, receivers)
