// Which picture is this? The page carries each picture once, in a block of its own; it is read when it comes into view.
const pictureWatch = new IntersectionObserver(
  (seen) => seen.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
    pictureWatch.unobserve(target);
    target.src = readBlock(target.dataset.picture);
  }),
  { rootMargin: "400px" },
);
function lateImage(picture, attributes) {
  const image = element("img", { ...attributes, "data-picture": picture, decoding: "async" });
  pictureWatch.observe(image);
  return image;
}
document.querySelectorAll("img[data-picture]").forEach((image) => pictureWatch.observe(image));
